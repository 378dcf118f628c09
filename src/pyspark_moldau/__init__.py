"""Found by Spark itself: any installed top-level module named pyspark_* that offers a `DefaultSource` is registered."""

from moldau.spark.data_source import MoldauDataSource as DefaultSource

__all__ = ["DefaultSource"]
