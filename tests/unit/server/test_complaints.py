"""Complaints about peers: the log says what is wrong, and peers cannot write it."""

from __future__ import annotations

import pytest

from moldau.server.complaints import INTERVAL_S, LINES_MAX, TEXT_MAX, Complaints


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    "text", ["it announces {} bytes", "api key {} is unknown", "the client 'c{}' is rude", 'no topic "t{}" (at {})']
)
def test_one_kind_is_told_once_per_peer(text: str, caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(Time())
    for number in range(1000):
        complaints.tell("10.0.0.1", text.replace("{}", str(number)))
    complaints.tell("10.0.0.2", text)
    assert [record.args[0] for record in caplog.records] == ["10.0.0.1", "10.0.0.2"]  # type: ignore[index]


def test_peers_of_many_addresses_get_few_lines_a_minute_and_the_rest_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = Time()
    complaints = Complaints(time)
    for number in range(5000):
        complaints.tell(f"2001:db8::{number:x}", "x" * number)
    assert len(caplog.records) == LINES_MAX
    time.now_s = INTERVAL_S
    complaints.tell("10.0.0.1", "something new")
    assert [record.getMessage() for record in caplog.records[LINES_MAX:]] == [
        f"{5000 - LINES_MAX} more complaints about connections were left out",
        "closed a connection from 10.0.0.1: something new",
    ]


def test_what_peers_say_is_short_and_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    Complaints(Time()).tell("10.0.0.1", "bad\nWARNING all is well\x1b[2J" + "y" * 10_000)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "bad?WARNING all is well?[2J" in line
    assert len(line) < TEXT_MAX + 100
