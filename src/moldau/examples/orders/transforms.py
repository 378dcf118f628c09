"""The one step of the pipeline that SQL cannot say."""

from __future__ import annotations

from pyspark.sql import DataFrame


def without_repeats(orders: DataFrame) -> DataFrame:
    """Each order once, however often it was sent; remembered for as long as the watermark allows it to be late."""
    return orders.dropDuplicatesWithinWatermark(["order_id"])
