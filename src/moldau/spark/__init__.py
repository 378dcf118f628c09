"""Spark and moldau: a source and an exactly-once sink, in Python, without jars. Needs the extra `spark`."""
