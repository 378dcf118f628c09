"""The record of a decision, and which one stands."""

from __future__ import annotations

import random

import pytest

from moldau.client.decision_log import (
    DecidedTransaction,
    Decision,
    Marked,
    UnreadableDecision,
    Written,
    common_prefix,
    is_enough,
    judge,
)
from moldau.client.decisions import decision_id, loss, run_prefix, task_transactional_id
from moldau.client.two_phase import PREPARED_TIMEOUT_MS, Described

ONE = DecidedTransaction("moldau-sink:s:r:0.0.0", 7, 3, 7, 2)


def decision(batch: int, *, finished: bool = False) -> Decision:
    return Decision(batch, "r", (ONE,), prepared=True, finished=finished)


def written(offset: int, producer_id: int, batch: int) -> Written:
    return Written(offset, producer_id, decision(batch).encode())


class TestFormat:
    @pytest.mark.parametrize("finished", [False, True])
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_nothing_is_lost(self, count: int, finished: bool) -> None:
        transactions = tuple(DecidedTransaction(f"moldau-sink:s:ü:{n}.0.0", 2**40 + n, n, 5, 6) for n in range(count))
        one = Decision(5, "ü", transactions, prepared=False, finished=finished)
        assert Decision.decode(one.encode()) == one

    def test_two_thousand_tasks_fit_in_a_message(self) -> None:
        run = "0a1b2c3d4e5f"
        names = [task_transactional_id("9f" * 18, run, f"{n}.0.1") for n in range(2000)]
        rows = [DecidedTransaction(name, 10**7 + n, 12345, 10**7 + n, 12344) for n, name in enumerate(names)]
        assert len(Decision(10**6, run, tuple(rows), prepared=True).encode()) < 100_000

    @pytest.mark.parametrize(
        "data", [b"", b"[]", b"{}", b'{"v":1}', b'{"v":1,"batch":1,"run":"r","prefix":"","prepared":true}', b"\xff"]
    )
    def test_what_cannot_be_read_is_not_guessed_at(self, data: bytes) -> None:
        with pytest.raises(UnreadableDecision):
            Decision.decode(data)

    def test_a_newer_format_says_so(self) -> None:
        with pytest.raises(UnreadableDecision, match="format 2"):
            Decision.decode(b'{"v":2}')

    @pytest.mark.parametrize(
        ("names", "prefix"), [([], ""), (["abc"], "abc"), (["abc", "abd"], "ab"), (["a", "b"], ""), (["ab", "a"], "a")]
    )
    def test_the_common_prefix(self, names: list[str], prefix: str) -> None:
        assert common_prefix(names) == prefix


class TestJudge:
    def test_nothing(self) -> None:
        judged = judge([])
        assert (judged.decided, judged.open) == (None, ())

    def test_the_last_committed_one_stands(self) -> None:
        events = [written(0, 7, 1), Marked(1, 7, True), written(2, 7, 2), Marked(3, 7, True)]
        assert judge(events).decided == decision(2)

    def test_an_aborted_one_does_not(self) -> None:
        events = [written(0, 7, 1), Marked(1, 7, True), written(2, 7, 2), Marked(3, 7, False)]
        assert judge(events).decided == decision(1)

    def test_an_open_one_may_still_come_to_stand(self) -> None:
        events = [written(0, 7, 1), Marked(1, 7, True), written(2, 7, 2)]
        judged = judge(events)
        assert (judged.decided, judged.open) == (decision(1), (decision(2),))

    def test_markers_of_others_mean_nothing(self) -> None:
        events = [written(0, 7, 1), Marked(1, 8, True), Marked(2, 8, False)]
        assert judge(events).decided is None
        assert not is_enough(events)

    def test_of_an_owner_a_record_whose_marker_was_cleaned_away_stands(self) -> None:
        events = [written(0, 7, 1), written(5, 9, 2), Marked(6, 9, True)]
        assert judge(events, settled=True).decided == decision(2)
        events = [written(0, 7, 1), Marked(1, 7, True), written(5, 9, 2)]
        assert judge(events, settled=True).decided == decision(2)

    @pytest.mark.parametrize("seed", range(50))
    def test_reading_backwards_in_steps_judges_as_reading_all(self, seed: int) -> None:
        """Drivers take over from each other, some decisions are aborted, other sinks' markers lie between."""
        chance = random.Random(seed)
        events: list[Written | Marked] = []
        for batch in range(chance.randrange(1, 12)):
            producer_id = 7 + batch // 4
            events.append(written(len(events), producer_id, batch))
            for _ in range(chance.randrange(4)):
                events.append(Marked(len(events), 100 + chance.randrange(2), chance.random() < 0.5))
            events.append(Marked(len(events), producer_id, chance.random() < 0.6))
        whole = judge(events).decided
        for step in (1, 2, 3, 5):
            lower = len(events)
            while lower > 0 and not is_enough(events[lower:]):
                lower = max(0, lower - step)
            assert judge(events[lower:]).decided == whole


class TestNames:
    def test_no_sink_is_a_prefix_of_another(self) -> None:
        """Or cleaning up after one would abort the other."""
        assert not task_transactional_id("a:b", "r", "0").startswith(decision_id("a") + ":")
        assert not task_transactional_id("ab", "r", "0").startswith(decision_id("a") + ":")
        assert task_transactional_id("a", "r:1", "0.0.0").startswith(run_prefix("a", "r:1"))
        assert not task_transactional_id("a", "r:1", "0").startswith(run_prefix("a", "r"))


class TestLoss:
    """A decided transaction that could not be committed: was it before?"""

    @pytest.mark.parametrize(
        ("found", "lost"),
        [
            (Described("CompleteCommit", 7, 4, 60_000), False),
            (Described("CompleteCommit", 7, 3, 60_000), False),
            (Described("PrepareCommit", 7, 4, 60_000), False),
            (Described("CompleteAbort", 7, 4, 60_000), True),
            (Described("PrepareAbort", 7, 4, 60_000), True),
            (Described("Empty", 7, 5, 60_000), True),
            (Described("Ongoing", 7, 5, 60_000), True),
        ],
    )
    def test_by_what_the_coordinator_says(self, found: Described, lost: bool) -> None:
        assert (loss(ONE, found, decision(1)) is not None) == lost

    @pytest.mark.parametrize("found", [Described("CompleteCommit", 7, 6, 1), Described("CompleteCommit", 8, 0, 1)])
    def test_a_later_epoch_means_a_second_finisher_or_a_later_transaction(self, found: Described) -> None:
        assert loss(ONE, found, decision(1)) is None
        assert loss(ONE, found, Decision(1, "r", (ONE,), prepared=False)) is not None

    def test_a_forgotten_one_was_finished_if_it_had_no_timeout(self) -> None:
        assert loss(ONE, None, decision(1)) is None
        assert loss(ONE, None, Decision(1, "r", (ONE,), prepared=False)) is not None


def test_prepared_means_open_and_without_a_timeout() -> None:
    assert Described("Ongoing", 1, 1, PREPARED_TIMEOUT_MS).is_prepared
    assert not Described("Ongoing", 1, 1, 60_000).is_prepared
    assert not Described("CompleteCommit", 1, 1, PREPARED_TIMEOUT_MS).is_prepared
