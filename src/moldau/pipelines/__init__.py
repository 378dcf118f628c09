"""Pipelines people can read: one file each, compiled onto Spark. Needs the extra `spark`."""

from moldau.pipelines.builder import Pipeline

__all__ = ["Pipeline"]
