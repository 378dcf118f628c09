"""The producer table against a model that remembers everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.log.producer_snapshot import decode_snapshot, encode_snapshot
from moldau.core.log.producers import ProducerTable
from moldau.model.errors import ErrorCode
from moldau.records.batch import BatchHeader

WRAP = 2**31


@dataclass
class ModelProducer:
    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, count, base offset) of the epoch, all of them."""
    txn_first: int | None = None


@dataclass
class Model:
    """Obvious and slow."""

    producers: dict[int, ModelProducer] = field(default_factory=dict)
    end: int = 0
    watermark: int = 0
    finished: list[tuple[int, int]] = field(default_factory=list)

    def expect(self, producer_id: int, epoch: int, sequence: int, count: int, txn: bool) -> str:
        producer = self.producers.get(producer_id)
        if producer is None:
            return "ok"
        if epoch == producer.epoch:
            for first, size, base in producer.batches[-5:]:
                if (first, size) == (sequence, count):
                    decided = producer.txn_first is None or base < producer.txn_first
                    # Nobody repeats what a marker has decided: its sequence was given out twice.
                    return "OUT_OF_ORDER_SEQUENCE_NUMBER" if txn and decided else f"duplicate {base}"
        if epoch < producer.epoch:
            return "INVALID_PRODUCER_EPOCH"
        expected = 0
        if epoch == producer.epoch and producer.batches:
            first, size, _ = producer.batches[-1]
            expected = (first + size) % WRAP
        if sequence != expected:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        if producer.txn_first is not None and not txn:
            return "INVALID_TXN_STATE"
        return "ok"

    def append(self, producer_id: int, epoch: int, sequence: int, count: int, txn: bool) -> None:
        producer = self.producers.setdefault(producer_id, ModelProducer())
        if epoch != producer.epoch:
            producer.epoch, producer.batches = epoch, []
        producer.batches.append((sequence, count, self.end))
        if txn and producer.txn_first is None:
            producer.txn_first = self.end
        self.end += count

    def finish(self, producer_id: int, epoch: int) -> tuple[int, int] | None:
        """(first offset, last stable offset) of what the marker completed."""
        producer = self.producers.setdefault(producer_id, ModelProducer())
        first, producer.txn_first = producer.txn_first, None
        if epoch != producer.epoch:
            producer.epoch, producer.batches = epoch, []
        marker = self.end
        self.end += 1
        if first is None:
            return None
        self.finished.append((first, marker))
        undecided = [one.txn_first for one in self.producers.values() if one.txn_first is not None]
        return first, min(undecided, default=self.end)

    def first_unstable(self) -> int:
        undecided = [one.txn_first for one in self.producers.values() if one.txn_first is not None]
        unreplicated = [first for first, marker in self.finished if marker >= self.watermark]
        return min(undecided + unreplicated, default=-1)


def header(
    offset: int, producer_id: int, epoch: int, sequence: int, count: int, *, txn: bool, control: bool = False
) -> BatchHeader:
    attributes = (0x10 if txn else 0) | (0x20 if control else 0)
    return BatchHeader(offset, 61, 0, 2, 0, attributes, count - 1, 0, 1000, producer_id, epoch, sequence, count)


actions = st.one_of(
    st.tuples(
        st.just("append"),
        st.integers(1, 2),
        st.sampled_from([0, 0, 0, 1, 2]),
        st.sampled_from(["next"] * 6 + ["again 1", "again 2", "again 5", "again 6", "zero", "gap", "wrap"]),
        st.sampled_from([1, 1, 1, 2]),
        st.booleans(),
    ),
    st.tuples(st.just("marker"), st.integers(1, 2), st.sampled_from([0, 0, 0, 1, 2]), st.booleans()),
    st.tuples(st.just("watermark"), st.integers(0, 6)),
    st.tuples(st.just("restart")),
)


def sequence_for(model: Model, producer_id: int, kind: str) -> int:
    producer = model.producers.get(producer_id)
    last = producer.batches[-1] if producer and producer.batches else None
    if kind == "wrap":
        return WRAP - 1
    if kind == "zero" or last is None:
        return 0
    if kind.startswith("again") and producer is not None:
        return producer.batches[-min(int(kind.split()[1]), len(producer.batches))][0]
    return (last[0] + last[1] + (1 if kind == "gap" else 0)) % WRAP


@settings(max_examples=250, deadline=None)
@given(st.lists(actions, max_size=40))
def test_the_table_answers_as_the_model(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    table, model = ProducerTable(), Model()
    for step in steps:
        if step[0] == "append":
            _, producer_id, epoch, kind, count, txn = step
            sequence = sequence_for(model, producer_id, kind)
            batch = header(model.end, producer_id, epoch, sequence, count, txn=txn)
            verdict = table.check(batch, 0, True)
            answer = ErrorCode(verdict.error).name if verdict.error else "ok"
            if verdict.duplicate:
                answer = f"duplicate {verdict.base_offset}"
            assert answer == model.expect(producer_id, epoch, sequence, count, txn)
            if verdict.ok:
                table.update(batch)
                model.append(producer_id, epoch, sequence, count, txn)
        elif step[0] == "marker":
            _, producer_id, epoch, aborted = step
            batch = header(model.end, producer_id, epoch, -1, 1, txn=True, control=True)
            if table.check_marker(batch, 0, 1).ok:
                done = table.complete_transaction(batch, 0, aborted)
                expected = model.finish(producer_id, epoch)
                assert (done and (done.first_offset, done.last_stable_offset)) == expected
            else:
                assert epoch < model.producers[producer_id].epoch
        elif step[0] == "watermark":
            model.watermark = max(model.watermark, min(model.end, model.watermark + step[1]))
            table.advance_high_watermark(model.watermark)
        else:
            # A restarted log serves only what is committed; the five batches of each producer survive.
            states = decode_snapshot(encode_snapshot(table))
            table = ProducerTable()
            table.load(states, model.end, 0, 10**9)
            model.watermark = model.end
            for producer in model.producers.values():
                producer.batches = producer.batches[-5:]
        assert table.end_offset == model.end
        assert table.first_unstable_offset() == model.first_unstable()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=9), st.integers(0, WRAP - 1), st.integers(0, 1))
def test_exactly_the_last_five_batches_of_the_epoch_are_recognised(counts: list[int], start: int, bump: int) -> None:
    """Whatever was sent in an older epoch; `bump` begins with a batch of one."""
    table, offset, sequence = ProducerTable(), 0, 0
    if bump:
        table.update(header(0, 7, 0, 0, counts[0], txn=False))
        offset = counts[0]
    else:
        sequence = start
    sent: list[tuple[int, int, int]] = []
    for count in counts:
        batch = header(offset, 7, bump, sequence, count, txn=False)
        assert table.check(batch, 0, True).ok
        table.update(batch)
        sent.append((sequence, count, offset))
        sequence, offset = (sequence + count) % WRAP, offset + count
    for age, (first, count, base) in enumerate(reversed(sent)):
        verdict = table.check(header(offset, 7, bump, first, count, txn=False), 0, True)
        if age < 5:
            assert (verdict.duplicate, verdict.base_offset, verdict.last_offset) == (True, base, base + count - 1)
        else:
            assert ErrorCode(verdict.error) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
