"""What the examples' generators promise: the same records for a seed, and nothing later than their pipeline waits."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.examples import __main__ as command
from moldau.examples.activity import expected as activity
from moldau.examples.clicks import expected as clicks
from moldau.examples.events import Arrivals, Event, Example, from_iso, iso
from moldau.examples.orders import expected as orders

NAMES = ["activity", "cdc", "clicks", "orders"]


def example(name: str) -> Example:
    found = importlib.import_module(f"moldau.examples.{name}.generate").EXAMPLE
    assert isinstance(found, Example)
    return found


def test_every_folder_with_a_pipeline_is_an_example() -> None:
    assert command.names() == NAMES
    assert [example(name).name for name in NAMES] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_records_and_another_seed_others(name: str) -> None:
    one = example(name)
    first = one.generate(500, seed=3)
    assert len(first) == 500
    assert first == one.generate(500, seed=3)
    assert first[:200] == one.generate(200, seed=3)
    assert first != one.generate(500, seed=4)


@pytest.mark.parametrize("name", NAMES)
def test_records_come_in_the_order_of_arrival_to_topics_that_are_created(name: str) -> None:
    one = example(name)
    events = one.generate(3_000, seed=1)
    assert {event.topic for event in events} <= {topic.name for topic in one.topics}
    arrivals = [event.arrival_ms for event in events]
    assert arrivals == sorted(arrivals)


@pytest.mark.parametrize(
    ("name", "watermark_ms"),
    [("activity", activity.WATERMARK_MS), ("clicks", clicks.WATERMARK_MS), ("orders", 600_000)],
)
def test_some_events_are_late_but_none_later_than_the_pipeline_waits(name: str, watermark_ms: int) -> None:
    one = example(name)
    newest_ms = latest_ms = 0
    for event in one.generate(20_000, seed=5):
        at_ms = time_of(event)
        if at_ms is None:
            continue
        newest_ms = max(newest_ms, at_ms)
        latest_ms = max(latest_ms, newest_ms - at_ms)
    assert 20_000 < latest_ms < watermark_ms - one.flush_every_ms


def time_of(event: Event) -> int | None:
    try:
        row = json.loads(event.value or b"")
    except ValueError:
        return None
    return from_iso(row["at"]) if "at" in row else None


def test_popular_users_are_popular() -> None:
    users = Counter(event.key for event in example("activity").generate(20_000, seed=2))
    (_, most), *_, (_, least) = users.most_common()
    assert most > 1_000
    assert least < 10


def test_open_windows_are_not_expected() -> None:
    events = example("activity").generate(20_000, seed=2)
    rows = activity.expected(events)
    total = sum(row["views"] + row["purchases"] for row in rows)
    assert 10_000 < total < 20_000
    assert rows == [row for row in activity.expected(events + events[-1:]) if row in rows]


def test_sessions_split_at_half_an_hour_without_a_click() -> None:
    minute = 60_000
    rows = clicks.expected(
        [click("a", at * minute) for at in (0, 29, 60)] + [click("b", 5 * minute), click("c", 120 * minute)]
    )
    assert [(row["user"], row["clicks"]) for row in rows] == [("a", 2), ("a", 1), ("b", 1)]


def click(user: str, at_ms: int) -> Event:
    value = json.dumps({"user": user, "page": "/", "at": iso(at_ms)}).encode()
    return Event(clicks.CLICKS, user.encode(), value, at_ms)


def test_orders_show_every_kind_of_trouble() -> None:
    events = example("orders").generate(5_000, seed=7)
    sent = Counter(event.value for event in events if event.topic == orders.ORDERS)
    result = orders.expected(events)
    assert max(sent.values()) > 1
    assert result["broken"]
    assert result["refused"]
    assert any(row["country"] == "unknown" for row in result["lake"])
    assert len({row["order_id"] for row in result["lake"]}) == len(result["lake"])


def test_arrivals_wait_for_their_time() -> None:
    arrivals = Arrivals()
    late, early = (Event("t", None, None, at_ms) for at_ms in (20, 10))
    arrivals.add(late)
    arrivals.add(early)
    assert list(arrivals.until(9)) == []
    assert list(arrivals.until(20)) == [early, late]


def test_copying_takes_the_pipeline_and_leaves_the_generator(tmp_path: Path) -> None:
    pipeline = command.copy("orders", tmp_path / "orders")
    assert pipeline.name == "pipeline.yaml"
    assert {"pipeline.yaml", "transforms.py", "README.md"} <= {file.name for file in pipeline.parent.iterdir()}
    assert not (pipeline.parent / "generate.py").exists()


def test_the_command_lists_copies_and_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    assert [line.split()[0] for line in run(command.main, []).output.splitlines()] == NAMES
    assert "moldau pipeline run clicks/pipeline.yaml" in run(command.main, ["clicks"]).output
    assert "exists already" in run(command.main, ["clicks"]).output
    assert "there is no example 'nope'" in run(command.main, ["nope"]).output
