"""The checkers see each kind of wrong history, and nothing in a right one."""

from __future__ import annotations

from moldau_sim.checkers import check_history
from moldau_sim.history import DeleteRecords, Dump, History, Marks, Partition, Poll, Row, Send, make_value


class Story:
    """Writes a small history, a tick at a time."""

    def __init__(self, **promise: bool) -> None:
        self.time = 0.0
        self.history = History(now=self.tick)
        self.history.partitions["a-0"] = Partition("a-0", **promise)
        self.rows: list[Row] = []

    def tick(self) -> float:
        self.time += 1.0
        return self.time

    def sent(self, number: int, offset: int, *, key: bytes | None = None, value: bool = True) -> Send:
        send = self.history.send("p.1", "a-0", make_value("p.1", number, 3) if value else None, key)
        self.history.sent(send, offset)
        self.rows.append(Row(offset, key, send.value))
        return send

    def dump(self, rows: list[Row] | None = None, start: int = 0, end: int | None = None) -> None:
        rows = self.rows if rows is None else rows
        high_watermark = end if end is not None else rows[-1].offset + 1 if rows else start
        self.history.dumps["a-0"] = Dump("a-0", start, high_watermark, rows)

    def kinds(self) -> set[str]:
        return {violation.kind for violation in check_history(self.history)}


def test_a_right_history_is_green() -> None:
    story = Story()
    for number in range(5):
        story.sent(number, number)
    story.history.polls.append(Poll("c", 0, "a-0", 0, story.rows[:3], story.tick(), next_position=3))
    story.history.polls.append(Poll("c", 0, "a-0", 3, story.rows[3:], story.tick(), next_position=5))
    story.dump()
    assert story.kinds() == set()


def test_an_acknowledged_record_that_is_gone_is_a_lost_write() -> None:
    story = Story()
    story.sent(0, 0)
    story.sent(1, 1)
    story.dump(story.rows[:1])
    assert story.kinds() == {"lost-write"}


def test_loss_is_excused_only_before_the_lossy_moment() -> None:
    story = Story(lossy=True)
    story.sent(0, 0)
    story.history.incarnation = 1
    story.sent(1, 0)
    story.dump(story.rows[1:])
    assert story.kinds() == set()
    story.sent(2, 1)
    story.dump(story.rows[1:2])
    assert story.kinds() == {"lost-write"}


def test_two_values_at_one_offset_are_inconsistent() -> None:
    story = Story()
    story.sent(0, 0)
    other = story.history.send("p.2", "a-0", make_value("p.2", 9, 0), None)
    story.history.polls.append(Poll("c", 0, "a-0", 0, [Row(0, None, other.value)], story.tick(), next_position=1))
    story.dump()
    assert story.kinds() == {"inconsistent-offset"}


def test_a_value_nobody_sent_is_a_phantom_and_a_bent_one_is_damaged() -> None:
    story = Story()
    story.sent(0, 0)
    story.dump([*story.rows, Row(1, None, make_value("x", 1, 0)), Row(2, None, b"x:2:nonsense")])
    assert story.kinds() == {"phantom", "damaged-value"}


def test_a_value_twice_is_a_duplicate() -> None:
    story = Story()
    first = story.sent(0, 0)
    story.dump([*story.rows, Row(1, None, first.value)])
    assert story.kinds() == {"duplicate"}


def test_offsets_against_the_order_of_sending_are_seen() -> None:
    story = Story()
    story.sent(0, 1)
    story.sent(1, 0)
    story.dump(story.rows[::-1])
    assert story.kinds() == {"producer-reorder", "realtime-reorder"}


def test_a_consumer_that_skips_or_goes_back_is_seen() -> None:
    story = Story()
    for number in range(4):
        story.sent(number, number)
    story.dump()
    story.history.polls.append(Poll("c", 0, "a-0", 0, [story.rows[0], story.rows[2]], story.tick(), next_position=3))
    assert story.kinds() == {"poll-skip"}
    story.history.polls.append(Poll("c", 0, "a-0", 3, [story.rows[1]], story.tick(), next_position=4))
    assert story.kinds() == {"poll-skip", "nonmonotonic-poll"}


def test_marks_that_fall_are_seen() -> None:
    story = Story()
    story.sent(0, 0)
    story.dump()
    story.history.deletes.append(DeleteRecords("a-0", 0, story.tick(), "ok", 0, story.tick()))
    story.history.deletes.append(DeleteRecords("a-0", 2, story.tick(), "info"))
    for high_watermark, start in ((5, 2), (4, 1)):
        story.history.marks.append(Marks("a-0", story.tick(), story.tick(), start, high_watermark, high_watermark + 1))
    assert story.kinds() == {"hw-regress", "lso-above-hw"}


def test_a_start_below_an_acknowledged_deletion_is_seen() -> None:
    story = Story()
    for number in range(4):
        story.sent(number, number)
    story.history.deletes.append(DeleteRecords("a-0", 2, story.tick(), "ok", 2, story.tick()))
    story.history.marks.append(Marks("a-0", story.tick(), story.tick(), 1, 4, 4))
    story.dump(story.rows[2:], start=2)
    assert story.kinds() == {"start-regress"}


def test_deleted_records_stay_deleted_and_nothing_else_goes() -> None:
    story = Story()
    for number in range(4):
        story.sent(number, number)
    story.history.deletes.append(DeleteRecords("a-0", 2, story.tick(), "ok", 2, story.tick()))
    story.dump(story.rows[2:], start=2)
    assert story.kinds() == set()
    story.dump(story.rows[3:], start=3)
    assert story.kinds() == {"lost-start"}
    story.dump(story.rows[1:], start=1)
    assert story.kinds() == {"start-regress"}


def test_compaction_must_keep_the_last_value_of_every_key() -> None:
    story = Story(compact=True)
    story.sent(0, 0, key=b"k")
    story.sent(1, 1, key=b"k")
    story.sent(2, 2, key=b"other")
    story.dump(story.rows[1:])
    assert story.kinds() == set()
    story.dump([story.rows[0], story.rows[2]])
    assert story.kinds() == {"compaction-loss"}


def test_a_deleted_key_is_not_revived() -> None:
    story = Story(compact=True, tombstones_go=True)
    story.sent(0, 0, key=b"k")
    story.sent(1, 1, key=b"k", value=False)
    story.sent(2, 2, key=b"other")
    story.dump([story.rows[2]])
    assert story.kinds() == set()
    story.dump([story.rows[0], story.rows[2]])
    assert story.kinds() == {"compaction-revived"}


def test_a_hole_in_a_log_is_seen() -> None:
    story = Story()
    for number in range(3):
        story.history.failed(story.history.send("p.1", "a-0", make_value("p.1", number, 0), None), "in doubt")
        story.history.sends[-1].outcome = "info"
    rows = [Row(0, None, story.history.sends[0].value), Row(2, None, story.history.sends[2].value)]
    story.dump(rows)
    assert story.kinds() == {"dump-hole"}


def test_an_unread_partition_makes_the_run_vacuous() -> None:
    story = Story()
    story.sent(0, 0)
    assert story.kinds() == {"vacuous"}
