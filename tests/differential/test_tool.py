"""The tool itself: it must see differences, name ids alike on both sides, and miss no API."""

from __future__ import annotations

import pytest

from moldau.server.api_table import APIS
from moldau.wire.apis import ApiKey
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from moldau.wire.primitives import NIL_UUID
from tests.differential.compare import Difference, differences
from tests.differential.explained import EXPLAINED
from tests.differential.families import scenarios
from tests.differential.mutations import mutations
from tests.differential.names import Names
from tests.differential.report import compared
from tests.differential.run import Noted
from tests.differential.shape import frame_of, request_case, response_case
from tests.differential.steps import resolve


class Nothing:
    """A scenario to which nothing was told yet."""

    def bound(self, name: str) -> object:
        return "" if name in ("member", "first", "second", "old") else 0

    def topic_id(self, name: str) -> bytes:
        return NIL_UUID


@pytest.mark.parametrize(
    ("kafka", "moldau", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 0}, {"a": 1}, [Difference("a", 0, 1)]),
        ({"a": None}, {"a": ""}, [Difference("a", None, "")]),
        ({"t": [{"name": "x", "n": 1}]}, {"t": [{"name": "x", "n": 2}]}, [Difference("t[x].n", 1, 2)]),
        ({"t": [{"name": "x"}, {"name": "y"}]}, {"t": [{"name": "y"}, {"name": "x"}]}, []),
        ({"t": [{"name": "x"}]}, {"t": []}, [Difference("t[x]", {"name": "x"}, "<absent>")]),
        ([1, 1], [1], [Difference("[1 #2]", 1, "<absent>")]),
        ("<closed>", {"a": 1}, [Difference("", "<closed>", {"a": 1})]),
    ],
)
def test_answers_are_compared_field_by_field(kafka: object, moldau: object, found: list[Difference]) -> None:
    assert list(differences(kafka, moldau)) == found


def test_a_wrong_id_in_the_right_place_is_seen() -> None:
    case = response_case(ApiKey.METADATA, 12)
    names = Names(port=1, data_dir="/data")

    def written(topic_id: bytes) -> object:
        return names.plain(MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=topic_id)]), case)[
            "topics"
        ]

    first, second = b"1" * 16, b"2" * 16
    names.learn(MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=first)]), case)
    assert written(first)[0]["topic_id"] == "<id of t>"  # type: ignore[index]
    assert written(second)[0]["topic_id"] != "<id of t>"  # type: ignore[index]


def test_one_field_is_changed_at_a_time_and_only_those_of_the_version() -> None:
    plain = {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
    old = [change.label for change in mutations(request_case(ApiKey.METADATA, 0), plain, {"name": ("",)})]
    new = [change.label for change in mutations(request_case(ApiKey.METADATA, 12), plain, {"name": ("",)})]
    assert old == ["topics=[]", "topics=twice", "topics[0].name="]
    assert {"topics=null", "topics[0].name=null", "allow_auto_topic_creation=True"} < set(new)


def test_every_served_api_is_asked_in_every_version() -> None:
    asked = {(step.api, step.version) for scenario in scenarios() for step in scenario.steps}
    served = {(api.key, version) for api in APIS for version in range(api.min_version, api.max_version + 1)}
    unstable = {(ApiKey.INIT_PRODUCER_ID, 6)}  # Kafka does not serve it unless told to
    assert not served - unstable - asked


def test_every_request_can_be_written_and_no_two_scenarios_share_a_name() -> None:
    seen = set()
    for scenario in scenarios():
        assert scenario.name not in seen
        seen.add(scenario.name)
        for step in scenario.steps:
            frame_of(step.api, step.version, resolve(step.request, Nothing()), 1)


def test_a_difference_nobody_explained_and_an_explanation_of_none_are_both_told() -> None:
    note = Noted("Metadata v1 0: Metadata v1 valid", ApiKey.METADATA, {"controller_id": 2})
    report = compared([note], {note.key: {"controller_id": 1}})
    assert report.unexplained == [(note.key, Difference("controller_id", 1, 2))]
    assert report.unused == list(EXPLAINED)
    assert "controller_id: Kafka 1, moldau 2" in report.problems()
    assert report.rows["Metadata"].different == 1
