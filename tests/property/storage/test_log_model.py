"""A log against a list of batches: whatever is done to both, they hold the same."""

from __future__ import annotations

import bisect

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.records.batch import iterate_headers
from moldau.storage.partition_log import PartitionLog
from moldau_sim.disk import SimulatedDisk
from tests.unit.storage.support import NOW_MS, append, batch, new_log, read_all, reopen

ROOT = "/data"


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.log: PartitionLog = new_log(
            self.disk, ROOT, segment_bytes=50_000, index_interval_bytes=300, timestamp_after_max_ms=10**15
        )
        self.batches: list[tuple[int, int, int, bytes]] = []
        """(base offset, last offset, timestamp, bytes as stored)."""
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.epochs: list[tuple[int, int]] = []

    # --- what clients and brokers do ----------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 5),
        size=st.sampled_from([0, 10, 100, 1000, 9000]),
        time=st.integers(0, 1000),
        as_view=st.booleans(),
        codec=st.sampled_from([0, 0, 0, 3]),
    )
    def append(self, count: int, size: int, time: int, as_view: bool, codec: int) -> None:
        sent = batch(count, size=size, timestamp=NOW_MS + time, codec=codec)
        records = memoryview(bytearray(sent)) if as_view else sent
        assert append(self.log, records, epoch=self.epoch) == self.end
        stored = self.end.to_bytes(8, "big") + sent[8:12] + self.epoch.to_bytes(4, "big") + sent[16:]
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs = [*(entry for entry in self.epochs if entry[1] < self.end), (self.epoch, self.end)]
        self.batches.append((self.end, self.end + count - 1, NOW_MS + time, stored))
        self.end += count

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        assert self.log.flush_set.flush_all() == []

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.batches) - 1))
        cut = self.batches[number][0]
        if cut < self.start:
            return
        self.log.truncate_to(cut)
        del self.batches[number:]
        self.end = cut
        self.epochs = [entry for entry in self.epochs if entry[1] < cut]

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start + 1, self.end))
        assert self.log.advance_start_offset(self.start)
        self.batches = [one for one in self.batches if one[1] >= self.log.segments[0].base_offset]
        holder = bisect.bisect_right([start for _, start in self.epochs], self.start) - 1
        if holder >= 0:
            self.epochs = [(self.epochs[holder][0], self.start), *self.epochs[holder + 1 :]]

    @rule()
    def kill_and_recover(self) -> None:
        self.log.flush_set.flush_all()
        self.log, report = reopen(self.log, start_offset=self.start)
        assert not report.problem

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.log, report = reopen(self.log, clean=True, start_offset=self.start)
        assert report.bytes_checked == 0

    # --- what must hold -----------------------------------------------------------------------------------------------

    @rule(data=st.data(), size=st.sampled_from([1, 200, 3000, 1 << 20]))
    def read_somewhere(self, data: st.DataObject, size: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.integers(offset, self.end))
        piece = self.log.read(offset, limit, size, True)
        assert piece.error == 0
        found = b"".join(bytes(part) for part in piece.parts)
        wanted = [one for one in self.batches if one[1] >= offset and one[1] < limit]
        assert b"".join(one[3] for one in wanted).startswith(found)
        assert found or not wanted
        assert len(found) <= size or len(list(iterate_headers(found))) == 1

    @rule(time=st.integers(-1, 1001))
    def look_up_a_time(self, time: int) -> None:
        found = self.log.offset_for_timestamp(NOW_MS + time, self.end)
        visible = [one for one in self.batches if one[1] >= self.start and one[2] >= NOW_MS + time]
        assert (found[:2] if found else None) == ((visible[0][2], max(visible[0][0], self.start)) if visible else None)

    @invariant()
    def ends_and_epochs_agree(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.log.epochs.entries == self.epochs

    def teardown(self) -> None:
        stored = b"".join(one[3] for one in self.batches if one[1] >= self.start)
        assert b"".join(data for data, _ in read_all(self.log)) == stored


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
