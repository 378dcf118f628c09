"""The log on disk, byte-compatible with Kafka's: segments, partition logs, log directories, cleaner."""
