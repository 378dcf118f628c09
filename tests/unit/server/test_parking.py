from __future__ import annotations

from typing import Any

from moldau.server.parking import SWEEP_ABOVE, Parked, Parking
from tests.unit.server.harness import StepLoop


class Note(Parked):
    def __init__(self, deadline_ms: int, log: list[Any], name: str) -> None:
        super().__init__(deadline_ms)
        self.log = log
        self.name = name
        self.released = 0

    def on_deadline(self) -> None:
        self.complete(f"{self.name} late")

    def release(self) -> None:
        self.released += 1

    def wake(self) -> None:
        self.complete(f"{self.name} woken")


def room() -> tuple[StepLoop, Parking, list[Any]]:
    loop = StepLoop()
    parking = Parking()
    parking.start(loop)
    return loop, parking, []


def park(parking: Parking, log: list[Any], name: str, after_ms: int) -> Note:
    note = Note(int(parking.now_ms()) + after_ms, log, name)
    note.deliver = log.append
    assert parking.park(note)
    return note


def test_deadlines_come_in_order_and_ties_in_arrival_order() -> None:
    loop, parking, log = room()
    for name, after in (("c", 300), ("a", 100), ("b1", 200), ("b2", 200)):
        park(parking, log, name, after)
    loop.advance(0.15)
    assert log == ["a late"]
    loop.advance(1)
    assert log == ["a late", "b1 late", "b2 late", "c late"]
    assert parking.parked == 0


def test_an_answer_is_given_once() -> None:
    loop, parking, log = room()
    note = park(parking, log, "a", 100)
    note.wake()
    note.wake()
    loop.advance(1)
    assert log == ["a woken"]
    assert note.released == 1
    assert parking.expired_total == 0


def test_an_answer_before_anyone_asked_is_kept() -> None:
    note = Note(0, [], "a")
    note.complete("early")
    assert note.early == "early"


def test_the_abandoned_are_forgotten() -> None:
    loop, parking, log = room()
    note = park(parking, log, "a", 100)
    note.abandon()
    loop.advance(1)
    assert log == []
    assert (parking.parked, note.released) == (0, 1)


def test_a_waiter_parked_by_an_expiring_one_gets_its_own_time() -> None:
    loop, parking, log = room()
    first = park(parking, log, "a", 100)
    first.deliver = lambda answer: (log.append(answer), park(parking, log, "b", 50))[0]
    loop.advance(0.12)
    assert log == ["a late"]
    loop.advance(0.1)
    assert log == ["a late", "b late"]


def test_entries_of_those_who_left_do_not_pile_up() -> None:
    loop, parking, log = room()
    keep = park(parking, log, "keep", 60_000)
    for number in range(10 * SWEEP_ABOVE):
        park(parking, log, str(number), 30_000).wake()
    assert len(parking._heap) <= 2 * SWEEP_ABOVE
    loop.advance(61)
    assert keep.done
    assert log[-1] == "keep late"


def test_closing_abandons_everyone() -> None:
    loop, parking, log = room()
    notes = [park(parking, log, str(number), 100) for number in range(3)]
    parking.close()
    loop.advance(1)
    assert log == []
    assert all(note.done for note in notes)
