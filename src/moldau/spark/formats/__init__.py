"""Keys and values as columns: JSON, Avro, text."""
