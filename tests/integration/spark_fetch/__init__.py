"""The executor's half of the Spark source against a real broker, without Spark."""
