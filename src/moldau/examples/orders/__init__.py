"""Orders, cleaned and enriched, into a lake table."""
