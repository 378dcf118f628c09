"""Batch frames that every query reads up to the topics' ends of now.

Spark plans a Python source once for each `load()` and keeps the plan, so a batch frame or view is a snapshot, taken by
its first action. There is one occasion on which Spark asks for a new plan: when it has filters to offer. It asks for
every query, on the driver, before any task starts, and the answer holds for all scans of the frame in that query. A
filter that is always true therefore makes every query look up the ends again. The source itself takes no filter.

    orders = current(spark.read.format("moldau").option("subscribe", "orders")...load())
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from moldau.spark.option_reader import OptionsWrong

OFFERS_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"

_ALWAYS_TRUE: Final = {"offset": "offset >= 0", "partition": "partition >= 0", "topic": "topic <> ''"}
"""Of records in a topic. The optimizer does not know that and keeps them."""


def current(frame: Any) -> Any:
    """The batch frame, planned anew by each query. Sets in its session that Spark offers filters to Python sources."""
    condition = always_true(frame.columns)
    if condition is None:
        raise OptionsWrong([
            f"only a frame with one of the columns {', '.join(_ALWAYS_TRUE)} can be planned anew; this one has "
            f"{', '.join(frame.columns)}. Add one of them to the option columns"
        ])  # fmt: skip
    frame.sparkSession.conf.set(OFFERS_FILTERS, "true")
    return frame.where(condition)


def always_true(columns: Collection[str]) -> str | None:
    """A condition that holds for every record, on one of these columns."""
    return next((condition for name, condition in _ALWAYS_TRUE.items() if name in columns), None)
