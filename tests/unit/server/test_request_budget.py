"""Memory for large requests: charged as they arrive, shared fairly, taken from whoever gets nowhere."""

from __future__ import annotations

from moldau.server.request_budget import FIRST_BYTES, Claim, Claimant, RequestBudget

MIB = 1 << 20


class Peer(Claimant):
    def __init__(self) -> None:
        self.told = 0
        self.busy = False

    def memory_freed(self) -> None:
        self.told += 1

    def waits_for_its_peer(self) -> bool:
        return not self.busy

    def put_out(self, reason: str) -> None:
        raise AssertionError("the hub does")


def begun(budget: RequestBudget, need: int, have: int = 1000) -> Claim:
    claim = budget.begin(Peer(), have, need)
    assert claim is not None
    return claim


def fill(budget: RequestBudget, claim: Claim, have: int) -> bool:
    claim.have = have
    return budget.grow(claim)


def test_what_is_announced_is_not_charged() -> None:
    budget = RequestBudget(16 * MIB)
    claims = [begun(budget, 100 * MIB) for _ in range(8)]
    assert budget.charged == 8 * FIRST_BYTES
    assert fill(budget, claims[0], FIRST_BYTES)
    assert claims[0].charged == 2 * FIRST_BYTES, "as much again as there is"
    assert begun(budget, 5000).charged == 5000


def test_the_last_quarter_is_for_first_shares() -> None:
    budget = RequestBudget(16 * MIB)
    old, large = begun(budget, 2 * MIB), begun(budget, 100 * MIB)
    have = MIB
    while fill(budget, large, have):
        have = large.charged
    assert budget.charged <= 12 * MIB
    small = [begun(budget, 400_000) for _ in range(9)]
    assert budget.charged <= 16 * MIB
    for claim in [old, *small]:
        budget.release(budget.arrived(claim))
    owner = large.owner
    assert isinstance(owner, Peer)
    assert owner.told > 0
    assert budget.grow(large)


def test_the_oldest_goes_on_beyond_the_budget() -> None:
    budget = RequestBudget(4 * MIB)
    first, second = begun(budget, 50 * MIB), begun(budget, 50 * MIB)
    assert fill(budget, first, 2 * MIB)
    assert not fill(budget, second, 2 * MIB)
    assert fill(budget, first, 40 * MIB)
    assert fill(budget, first, 50 * MIB)
    charged = budget.arrived(first)
    assert charged == 50 * MIB
    assert fill(budget, second, 2 * MIB), "now the oldest"
    budget.release(charged)
    budget.leave(second)
    assert budget.charged == 0
    assert not budget.is_short()


def test_any_request_is_admitted_when_nothing_else_is_there() -> None:
    budget = RequestBudget(10)
    claim = begun(budget, 50 * MIB)
    assert budget.begin(Peer(), 10, 20) is None
    budget.leave(claim)
    assert budget.charged == 0


def test_who_waits_outside_is_told_first_and_in_order() -> None:
    budget = RequestBudget(2 * MIB)
    told: list[str] = []

    class Named(Peer):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def memory_freed(self) -> None:
            told.append(self.name)

    inside = begun(budget, MIB)
    growing = budget.begin(Named("growing"), 10, 50 * MIB)
    assert growing is not None
    assert not fill(budget, growing, MIB)
    for name in ("one", "two", "gone"):
        gone = Named(name)
        assert budget.begin(gone, 10, MIB) is None
    budget.forget(gone)
    budget.release(budget.arrived(inside))
    assert told[:2] == ["one", "two"] or told == ["one", "two", "growing"]
    assert "gone" not in told


class TestTooSlow:
    def test_only_while_somebody_waits(self) -> None:
        budget = RequestBudget(2 * MIB)
        begun(budget, 100 * MIB)
        assert [budget.too_slow(second) for second in (0.0, 5.0, 10.0)] == [[], [], []]

    def test_the_slowest_first_and_no_more_than_needed(self) -> None:
        budget = RequestBudget(3 * MIB)
        slow, slower, quick = (begun(budget, 100 * MIB) for _ in range(3))
        assert budget.begin(Peer(), 10, MIB) is None
        assert budget.too_slow(0.0) == []
        slow.have += 2000
        slower.have += 10
        quick.have += 30 * MIB
        assert budget.too_slow(1.0) == [slower]
        budget.leave(slower)
        assert begun(budget, MIB).charged == MIB

    def test_a_trickle_is_not_enough(self) -> None:
        budget = RequestBudget(MIB)
        drip = begun(budget, 100 * MIB)
        assert budget.begin(Peer(), 10, MIB) is None
        found = []
        for tick in range(20):
            drip.have += 1
            found += budget.too_slow(tick * 0.25)
        assert drip in found

    def test_who_waits_for_this_node_is_not_blamed(self) -> None:
        budget = RequestBudget(2 * MIB)
        oldest, growing = begun(budget, 100 * MIB), begun(budget, 100 * MIB)
        busy = oldest.owner
        assert isinstance(busy, Peer)
        busy.busy = True
        assert not fill(budget, growing, MIB)
        assert [budget.too_slow(float(second)) for second in range(5)] == [[]] * 5
        busy.busy = False
        assert [budget.too_slow(float(second)) for second in (5, 6)] == [[], [oldest]]
