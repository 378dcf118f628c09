"""Pipelines people can read: one file each, compiled onto Spark. Needs the extra `spark`."""
