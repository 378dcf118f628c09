"""Composition root: the only place that knows every class, and the node's life from start to stop."""
