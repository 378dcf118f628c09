"""Memory for replies that nobody takes."""

from __future__ import annotations

from moldau.server.reply_budget import Outlet, ReplyBudget

MIB = 1 << 20


class Client(Outlet):
    def __init__(self, in_memory: int, in_files: int = 0) -> None:
        self.in_memory = in_memory
        self.in_files = in_files

    def unsent_bytes(self) -> int:
        return self.in_memory + self.in_files

    def unsent_in_memory(self) -> int:
        return self.in_memory


def clogged(budget: ReplyBudget, *clients: Client) -> None:
    for client in clients:
        budget.clog(client, 0.0)


def test_what_lies_in_files_costs_nothing() -> None:
    budget = ReplyBudget(10 * MIB)
    clogged(budget, *[Client(1000, 50 * MIB) for _ in range(100)])
    assert budget.held == 100_000
    assert budget.has_room()
    assert budget.too_slow(60.0) == []


def test_nobody_goes_while_all_fits() -> None:
    budget = ReplyBudget(10 * MIB)
    clogged(budget, Client(9 * MIB))
    assert budget.too_slow(1000.0) == []


def test_the_largest_that_is_not_taken_goes_first() -> None:
    budget = ReplyBudget(10 * MIB)
    small, large, read = Client(4 * MIB), Client(6 * MIB), Client(8 * MIB)
    clogged(budget, small, large, read)
    assert not budget.has_room()
    assert budget.too_slow(0.5) == [], "too early to tell"
    read.in_memory -= MIB
    assert budget.too_slow(1.0) == [large, small]
    assert not budget.clear(large)
    assert budget.clear(small), "that made room"
    assert budget.held == 7 * MIB
    assert not budget.clear(small)


def test_one_reply_larger_than_the_budget_is_sent() -> None:
    budget = ReplyBudget(10 * MIB)
    reader = Client(90 * MIB)
    clogged(budget, reader)
    for second in range(1, 9):
        reader.in_memory -= 10 * MIB
        assert budget.too_slow(float(second)) == []
    assert budget.has_room()


def test_more_to_send_begins_a_new_look() -> None:
    budget = ReplyBudget(MIB)
    client = Client(2 * MIB)
    clogged(budget, client)
    client.in_memory += MIB
    assert budget.too_slow(1.5) == []
    assert budget.too_slow(2.5) == [client]
