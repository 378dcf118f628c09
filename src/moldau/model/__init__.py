"""Values every room shares: ids, error codes, limits, checks, option declarations. Standard library only."""
