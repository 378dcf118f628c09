"""The cluster's truth as a decider: records, immutable image, decisions by family, placement."""
