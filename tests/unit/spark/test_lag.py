"""How far a query is behind, from the reports that Spark makes of it."""

from __future__ import annotations

import json

import pytest

from moldau.model.ids import TopicPartition
from moldau.spark.lag import Behind, behind_latest, positions_of

REPORT = {
    "id": "q",
    "sources": [
        {"description": "RateStream", "endOffset": "5"},
        {
            "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1",
            "endOffset": {"b": {"0": 5, "1": 7}, "a": {"0": 1}, "#id b B": {}},
            "latestOffset": {"b": {"0": 15, "1": 6}, "a": {"0": 3}, "new": {"0": 9}},
        },
    ],
}


class Progress:
    """As Spark gives it to Python."""

    json = json.dumps(REPORT)


@pytest.mark.parametrize("progress", [REPORT, json.dumps(REPORT), Progress()])
def test_figures_of_the_sources_that_read_topics(progress: object) -> None:
    (found,) = behind_latest(progress)
    assert found.description == "moldau[a,b]"
    assert found.offsets == {TopicPartition("b", 0): 10, TopicPartition("b", 1): 0, TopicPartition("a", 0): 2}
    assert found.metrics() == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "10",
        "avgOffsetsBehindLatest": "4.0",
    }


def test_before_the_end_is_known() -> None:
    assert behind_latest({"sources": [{"endOffset": {"a": {"0": 1}}, "latestOffset": None}]}) == [
        Behind("moldau[a]", {})
    ]
    assert Behind("moldau[a]", {}).metrics() == {}
    assert behind_latest(None) == [], "a query that has not reported yet"


@pytest.mark.parametrize(
    "source",
    [{}, {"description": "RateStream", "endOffset": "5"}, {"description": "moldau", "endOffset": "no json"},
     {"endOffset": 5}, {"endOffset": {"logOffset": 3}}, {"endOffset": {"a": {"b": "c"}}}],
)  # fmt: skip
def test_other_sources_have_no_positions(source: dict[str, object]) -> None:
    assert positions_of(source) == {}


def test_positions_may_come_as_text() -> None:
    assert positions_of({"description": "MoldauDataSource", "endOffset": '{"a":{"3":9}}'}) == {
        TopicPartition("a", 3): 9
    }
