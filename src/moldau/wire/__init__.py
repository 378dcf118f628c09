"""The Kafka protocol without I/O: primitives, message classes, codecs, request and response headers."""
