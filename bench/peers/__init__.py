"""The brokers that are compared: each can be started, asked for its pid and address, and stopped."""
