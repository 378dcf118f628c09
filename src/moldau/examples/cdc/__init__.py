"""Changes of a database table, as a compacted topic and as a view that is always up to date."""
