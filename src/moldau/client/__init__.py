"""One small asynchronous client for our own tools and, later, broker-to-broker calls. Works against any Kafka."""
