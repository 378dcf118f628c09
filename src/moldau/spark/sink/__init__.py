"""Writing: options, tasks, and the driver's half of exactly once."""
