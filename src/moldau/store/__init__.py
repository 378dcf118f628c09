"""Engines for the metadata log: SQLite in one file today, a ZooKeeper ensemble across machines later."""
