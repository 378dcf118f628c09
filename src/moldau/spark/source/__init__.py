"""Reading as Spark plans it: options, offsets, ranges, push-down, readers."""
