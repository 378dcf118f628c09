"""The reader of a stream whose options are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from moldau.model.failures import MoldauError
from moldau.spark.telling import sentence_first


class RefusedReader(DataSourceStreamReader):
    """Answers every question with what is wrong.

    PySpark stops the reader whatever happens, also where making it failed: there is none then, and its own mistake
    about that hides ours. So the reader is made, and the first question is refused.
    """

    def __init__(self, failure: MoldauError) -> None:
        self._failure = failure

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()

    @sentence_first()
    def _refuse(self) -> NoReturn:
        raise self._failure
