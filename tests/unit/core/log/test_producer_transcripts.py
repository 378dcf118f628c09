"""Plays tests/transcripts/producers against the producer table, as a log with offsets would use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.core.log.producer_snapshot import decode_snapshot, encode_snapshot
from moldau.core.log.producers import ProducerTable, ProducerVerdict
from moldau.model.errors import ErrorCode
from moldau.records.batch import BatchHeader, parse_header
from moldau.records.builder import BatchBuilder, build_end_marker

FOLDER = Path(__file__).parents[3] / "transcripts" / "producers"
TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


class Player:
    """Understands the commands of the transcripts."""

    def __init__(self) -> None:
        self.table = ProducerTable()

    def play(self, command: str) -> str:
        verb, *words = command.split()
        options = dict(word.split("=") for word in words if "=" in word)
        return str(getattr(self, f"do_{verb}")(*[word for word in words if "=" not in word], **options))

    def do_append(
        self, pid: str, epoch: str, seq: str, count: str, txn: str = "no", origin: str = "client", at: str = "1000"
    ) -> str:
        builder = BatchBuilder(
            base_offset=self.table.end_offset,
            producer_id=int(pid),
            producer_epoch=int(epoch),
            base_sequence=int(seq),
            transactional=txn == "yes",
        )
        for _ in range(int(count)):
            builder.append(b"k", b"v", (), int(at))
        header = parse_header(builder.build(), 0)
        verdict = self.table.check(header, int(at), origin == "client")
        if verdict.duplicate:
            return f"duplicate {verdict.base_offset}..{verdict.last_offset}"
        if not verdict.ok:
            return refusal(verdict)
        self.table.update(header)
        return f"ok {header.base_offset}..{header.last_offset}"

    def do_marker(self, pid: str, epoch: str, kind: str, coordinator: str, version: str = "1") -> str:
        header = self._marker_header(pid, epoch, kind, coordinator)
        verdict = self.table.check_marker(header, int(coordinator), int(version))
        if not verdict.ok:
            return refusal(verdict)
        done = self.table.complete_transaction(header, int(coordinator), kind == "abort")
        if done is None:
            return f"ok {header.base_offset} empty"
        aborted = " aborted" if done.aborted else ""
        return (
            f"ok {header.base_offset} completed {done.first_offset}..{done.last_offset}{aborted} "
            f"last_stable={done.last_stable_offset}"
        )

    def _marker_header(self, pid: str, epoch: str, kind: str, coordinator: str) -> BatchHeader:
        batch = build_end_marker(
            aborted=kind == "abort",
            producer_id=int(pid),
            producer_epoch=int(epoch),
            coordinator_epoch=int(coordinator),
            timestamp=1000,
            base_offset=self.table.end_offset,
        )
        return parse_header(batch, 0)

    def do_stable(self) -> str:
        table = self.table
        return f"first_unstable={table.first_unstable_offset()} first_undecided={table.first_undecided_offset()}"

    def do_watermark(self, offset: str) -> str:
        self.table.advance_high_watermark(int(offset))
        return self.do_stable()

    def do_expire(self, now: str, after: str) -> str:
        return f"{self.table.expire(int(now), int(after))} expired"

    def do_restart(self, now: str, after: str) -> str:
        states = decode_snapshot(encode_snapshot(self.table))
        fresh = ProducerTable()
        fresh.load(states, self.table.end_offset, int(now), int(after))
        self.table = fresh
        return (
            f"{len(fresh.producers)} producers, end {fresh.end_offset}, first_unstable={fresh.first_unstable_offset()}"
        )

    def do_start(self, offset: str) -> str:
        self.table.advance_start_offset(int(offset))
        return f"end {self.table.end_offset}, {len(self.table.producers)} producers"

    def do_show(self) -> str:
        return "\n".join(
            f"{producer_id}: epoch={state.epoch} last_sequence={state.last_sequence} "
            f"last_offset={state.last_data_offset} batches={len(state.batches)} txn={state.txn_first_offset}"
            for producer_id, state in sorted(self.table.producers.items())
        )


def refusal(verdict: ProducerVerdict) -> str:
    assert verdict.detail
    return f"refused {ErrorCode(verdict.error).name}"


def steps_of(text: str) -> list[tuple[str, str]]:
    """(command, expected answer) pairs; blank lines part them, lines with # are comments."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    steps = []
    for block in kept.strip().split("\n\n"):
        command, _, answer = block.strip().partition("\n----\n")
        steps.append((command, answer))
    return steps


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 6


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    player = Player()
    for number, (command, answer) in enumerate(steps_of(path.read_text())):
        assert player.play(command) == answer, f"step {number}: {command}"


def test_clearing_forgets_everything() -> None:
    player = Player()
    player.play("append pid=1 epoch=0 seq=0 count=1 txn=yes")
    assert player.table.oldest_open_timestamp() == 1000
    player.table.clear(40)
    assert (player.table.end_offset, player.table.producers) == (40, {})
    assert player.table.first_unstable_offset() == -1
    assert player.table.oldest_open_timestamp() == -1


def test_what_compaction_must_keep_of_each_producer() -> None:
    player = Player()
    player.play("append pid=1 epoch=0 seq=0 count=3")
    player.play("marker pid=2 epoch=4 kind=commit coordinator=0")
    kept = player.table.last_records()
    assert (kept[1].last_data_offset, kept[1].epoch) == (2, 0)
    assert (kept[2].last_data_offset, kept[2].epoch) == (-1, 4)
