"""What the campaign's figures count, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack import good_client
from tests.attack.attacks.damage import Outcome, judge_refusal, kind_of, warnings
from tests.attack.figures import Row
from tests.attack.history import Journal
from tests.attack.watch import Watched
from tests.attack.world import compare


def watched(*rows: tuple[float, float, float, float]) -> Watched:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return Watched(*columns)


def journal(tmp_path: Path, *lines: str) -> Journal:
    path = tmp_path / "journal"
    path.write_text("".join(f"{line}\n" for line in lines))
    made = Journal(path)
    made.refresh()
    return made


def test_what_the_machine_took_is_no_pause(tmp_path: Path) -> None:
    waited = journal(tmp_path, "ack 10.0 11.0 0 0 0", "ack 20.0 20.3 0 1 3")
    busy = watched((9.9, 0.0, 0.0, 50), (11.1, 0.1, 0.9, 50), (19.9, 0.1, 0.9, 50), (20.4, 0.15, 0.9, 70))
    wait, net_s = waited.longest(busy, 0, 100)
    assert wait is not None
    assert (wait.begin, round(net_s, 2)) == (20.0, 0.25)
    assert waited.longest(busy, 0, 15)[1] == pytest.approx(0.1)


def test_only_waits_of_that_time_count(tmp_path: Path) -> None:
    waited = journal(tmp_path, "asked 1.0 6.0", "read 10.0 10.1 0 0")
    assert waited.longest(Watched(), 5.0, 20.0)[1] == 5.0
    assert waited.longest(Watched(), 7.0, 20.0)[1] == pytest.approx(0.1)
    assert waited.longest(Watched(), 20.0, 30.0) == (None, 0.0)


def test_an_offset_that_is_given_twice_is_a_problem(tmp_path: Path) -> None:
    assert journal(tmp_path, "ack 1 2 0 7 1", "ack 2 3 0 7 2").problems
    assert not journal(tmp_path, "ack 1 2 0 7 1", "ack 2 3 1 7 2").problems


def test_a_line_that_is_not_ended_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("ack 1 2 0 0 1\nack 2 3 0 1")
    made = Journal(path)
    made.refresh()
    assert made.acknowledged_count == 1
    with path.open("a") as file:
        file.write(" 4\n")
    made.refresh()
    assert made.acknowledged[0] == {0: 1, 1: 4}


def test_peak_memory_of_a_time() -> None:
    assert watched((1, 0, 0, 50), (2, 0, 0, 700), (3, 0, 0, 60)).peak_mib(2.5, 9) == 60


def test_values_tell_when_they_are_spoiled() -> None:
    value = good_client.value_of(99, 12.5)
    assert len(value) > good_client.LARGE_BYTES
    assert good_client.number_of(value) == 99
    assert good_client.sent_at_of(value) == 12.5
    with pytest.raises(ValueError, match="spoiled"):
        good_client.number_of(value.replace(b"99:", b"98:", 1))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Row("a", "f", pause_ms=249, rss_mib=511, descriptors_before=10, descriptors_after=12), ""),
        (Row("a", "f", pause_ms=251), "251 ms"),
        (Row("a", "f", rss_mib=600), "600 MiB"),
        (Row("a", "f", descriptors_before=10, descriptors_after=20), "10 descriptors"),
        (Row("a", "f", lost=1), "lost"),
        (Row("a", "f", silent=1), "silence"),
        (Row("a", "f", problems=["it died"]), "it died"),
    ],
)
def test_every_bound_can_break(row: Row, told: str) -> None:
    assert told in "".join(row.broken())
    assert bool(told) == bool(row.broken())


def test_timings_are_left_out_on_request() -> None:
    assert Row("a", "f", pause_ms=9000).broken(timings=False) == []
    assert Row("a", "f", lost=1).broken(timings=False)


def test_what_a_damaged_partition_shows() -> None:
    expected = {0: b"a", 1: b"b", 2: b"c"}
    assert compare("t-0", expected, dict(expected)) == ""
    assert "not served" in compare("t-0", expected, None)
    assert "1 records missing from 2" in compare("t-0", expected, {0: b"a", 1: b"b"})
    assert "changed from 1" in compare("t-0", expected, expected | {1: b"x"})
    assert "more than there were from 3" in compare("t-0", expected, expected | {3: b"d"})


def test_only_warnings_tell() -> None:
    log = "2026-01-31 12:00:00.123 INFO  moldau.x  plain\n2026-01-31 12:00:00.123 WARN  moldau.x  cut\n    | other\n"
    assert warnings(log).splitlines() == ["2026-01-31 12:00:00.123 WARN  moldau.x  cut", "    | other"]


def test_a_refused_start_must_say_why() -> None:
    clear, traceback, mute = (Outcome("a clean stop", "metadata.db", "empty") for _ in range(3))
    judge_refusal(clear, "error MD-1: metadata.db is empty")
    judge_refusal(traceback, "Traceback (most recent call last):\n  KeyError: 3")
    judge_refusal(mute, "")
    assert not clear.problems
    assert "KeyError" in traceback.problems[0]
    assert mute.problems


def test_kinds_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "plain-0"
    folder.mkdir()
    for base in (0, 40, 90):
        (folder / f"{base:020d}.log").touch()
    (folder / f"{40:020d}.timeindex").touch()
    kinds = [kind_of(path) for path in sorted(folder.iterdir())]
    assert kinds == [".log first", ".log middle", ".timeindex", ".log last"]
    assert kind_of(tmp_path / "__consumer_offsets-3" / f"{0:020d}.log") == "__consumer_offsets .log"
    assert kind_of(tmp_path / "metadata.db-wal") == "metadata.db-wal"
