"""The same scenarios through format `moldau` and through Spark's own Kafka connector, step by step."""
