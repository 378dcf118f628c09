"""What went wrong in one of Spark's Python processes: our sentence first, Python's traceback after it.

PySpark sends the text of an exception to the user with the traceback in front, so the sentence that says what to do
comes after some twenty lines of somebody else's code. It leaves the traceback out where it is told to; a note of the
exception then carries it behind the sentence.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Final

from moldau.model.failures import MoldauError

HIDE: Final = "SPARK_HIDE_TRACEBACK"
_HERE: Final = (__file__, contextlib.__file__)


@contextlib.contextmanager
def sentence_first() -> Iterator[None]:
    """Around what Spark calls; also as a decorator. Failures that are not ours keep Python's order."""
    try:
        yield
    except MoldauError as failure:
        if in_spark_process():
            failure.add_note(_told(failure))
            # Of this process alone, and it ends with the exception that it tells of.
            os.environ[HIDE] = "1"
        raise


def _told(failure: MoldauError) -> str:
    """Where it was raised, without the way through here."""
    frames = [one for one in traceback.extract_tb(failure.__traceback__) if one.filename not in _HERE]
    return "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames)).rstrip()


def in_spark_process() -> bool:
    """Whether this is a Python process that Spark started, and not one that a person did."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
