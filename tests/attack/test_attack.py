"""The short form of `make attack`, and bugs that were planted for it to find. Timings are left to the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.broker_process import MOLDAU
from tests.attack.attacks import ALL, NOT_SHORT, SHORT, DerivedFiles, connections, damage
from tests.attack.campaign import Plan, run
from tests.attack.figures import Row
from tests.attack.planted import program

DAMAGE_ROUNDS = 6


def broken(rows: list[Row]) -> dict[str, list[str]]:
    return {row.attack: row.broken(timings=False) for row in rows if row.broken(timings=False)}


def test_every_attack_is_short_or_says_why_not() -> None:
    assert set(ALL) == (set(SHORT) - {DerivedFiles}) | set(NOT_SHORT)
    assert len({kind.name for kind in ALL}) == len(ALL)


def test_rude_peers(tmp_path: Path) -> None:
    rude = [kind for kind in SHORT if kind.family == "rudeness"]
    rows = run(Plan(tmp_path, rounds_max=1), rude)
    assert broken(rows) == {}
    assert [row.rounds for row in rows] == [1] * (len(rude) + 1)


def test_few_descriptors(tmp_path: Path) -> None:
    rows = run(Plan(tmp_path, rounds_max=1), [kind for kind in SHORT if kind.family == "hunger"])
    assert broken(rows) == {}
    assert all(row.rounds == 1 or row.skipped for row in rows)


def test_damaged_files(tmp_path: Path) -> None:
    rows = run(Plan(tmp_path, rounds_max=DAMAGE_ROUNDS, seconds=600), [DerivedFiles])
    assert broken(rows) == {}
    assert rows[0].rounds == DAMAGE_ROUNDS


def test_a_lost_record_is_found(tmp_path: Path) -> None:
    rows = run(Plan(tmp_path, rounds_max=1, program=program("loses-acknowledged")), [connections.HalfOpen])
    assert rows[0].lost > 0, rows


def test_a_leaking_descriptor_is_found(tmp_path: Path) -> None:
    rows = run(Plan(tmp_path, rounds_max=1, program=program("leaks-descriptors")), [connections.HalfOpen])
    assert any("descriptors more" in text for text in broken(rows)["half-open connections"]), rows
    assert rows[0].lost == 0


class TornEnd(damage.DamageAttack):
    name = "the end of a log torn off"

    def _deck(self, rng: object) -> list[tuple[str, str, str]]:
        return [(damage.KILLED, ".log last", "truncated")]


@pytest.mark.parametrize(("started", "silent"), [(MOLDAU, 0), (program("hides-warnings"), 1)])
def test_a_cut_that_nobody_is_told_of_is_found(tmp_path: Path, started: tuple[str, ...], silent: int) -> None:
    rows = run(Plan(tmp_path, rounds_max=1, program=started), [TornEnd])
    assert (rows[0].told, rows[0].silent) == (1 - silent, silent), rows
