"""A micro-batch for a topic in mode `update` or `complete` says who writes it and which one it is."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.pipelines import topic_batches
from moldau.pipelines.topic_batches import TopicBatches


class Batch:
    """As much of a DataFrame as is used."""

    sparkSession = object()

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.saved = 0

    @property
    def write(self) -> Batch:
        return self

    def format(self, name: str) -> Batch:
        self.given["format"] = name
        return self

    def options(self, **options: str) -> Batch:
        self.given |= options
        return self

    def mode(self, mode: str) -> Batch:
        self.given["mode"] = mode
        return self

    def save(self) -> None:
        self.saved += 1


@pytest.fixture(autouse=True)
def checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_batches, "query_id_of", lambda _spark, path: f"id of {path}")


def test_exactly_once_names_the_query_and_the_batch() -> None:
    batch = Batch()
    TopicBatches({"topic": "t"}, "/state", exactly_once=True)(batch, 7)
    assert batch.saved == 1
    assert batch.given == {
        "format": "moldau", "mode": "append", "topic": "t", "txnAppId": "id of /state", "txnVersion": "7",
    }  # fmt: skip


def test_at_least_once_does_not() -> None:
    batch = Batch()
    TopicBatches({"topic": "t", "deliveryGuarantee": "at-least-once"}, "/state", exactly_once=False)(batch, 7)
    assert batch.saved == 1
    assert not {"txnAppId", "txnVersion"} & set(batch.given)
