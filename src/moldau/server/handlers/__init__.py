"""One file per Kafka API: a versioned message in, a version-free question to the broker, a message out."""
