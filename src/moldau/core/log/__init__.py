"""Log arithmetic: index entries, producer state, leader-epoch history, retention and compaction plans."""
