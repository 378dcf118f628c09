"""The shell around `core/transaction`: `coordinator.py` runs its shards, `markers.py` carries decisions to the
partitions, `verification.py` asks whether a write belongs to a transaction."""
