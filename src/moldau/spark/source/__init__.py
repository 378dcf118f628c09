"""Reading as Spark plans it: options, offsets, ranges, readers."""
