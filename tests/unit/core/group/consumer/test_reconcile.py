from __future__ import annotations

from moldau.core.group.consumer.reconcile import must_be_fenced, reconcile
from moldau.core.group.consumer.records import CurrentAssignment, MemberState, TopicIdPartition
from moldau.core.group.consumer.state import Member
from tests.unit.core.group.consumer.crowd import topic_id

T = topic_id("orders")
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def parts(*indexes: int) -> frozenset[TopicIdPartition]:
    return frozenset((T, index) for index in indexes)


def since(epoch: int, *indexes: int) -> dict[TopicIdPartition, int]:
    return {(T, index): epoch for index in indexes}


def member(current: CurrentAssignment) -> Member:
    return Member("m", current=current)


def moved(
    current: CurrentAssignment,
    target_epoch: int,
    target: frozenset[TopicIdPartition],
    *,
    owned: frozenset[TopicIdPartition] | None = None,
    others: frozenset[TopicIdPartition] = frozenset(),
) -> CurrentAssignment:
    owners = dict.fromkeys((*current.assigned, *current.revoking), "m") | dict.fromkeys(others, "other")
    return reconcile(member(current), target_epoch=target_epoch, target=target, owners=owners, owned=owned)


def test_a_member_at_its_target_stays() -> None:
    current = CurrentAssignment(3, 2, STABLE, since(1, 0))
    assert moved(current, 3, parts(0)) is current


def test_free_partitions_are_given_at_once_with_the_epoch_since_which_they_are_its_own() -> None:
    after = moved(CurrentAssignment(1, 0, STABLE, since(1, 0)), 2, parts(0, 1))
    assert after == CurrentAssignment(2, 1, STABLE, since(1, 0) | since(2, 1))


def test_partitions_of_others_are_waited_for_at_the_new_epoch() -> None:
    after = moved(CurrentAssignment(1, 0, STABLE, since(1, 0)), 2, parts(0, 1, 2), others=parts(1))
    assert after == CurrentAssignment(2, 1, UNRELEASED, since(1, 0) | since(2, 2))
    assert moved(after, 2, parts(0, 1, 2), others=parts(1)) is after
    assert moved(after, 2, parts(0, 1, 2)).state is STABLE


def test_what_must_go_is_asked_for_at_the_old_epoch() -> None:
    after = moved(CurrentAssignment(1, 0, STABLE, since(1, 0, 1)), 2, parts(0, 5))
    assert after == CurrentAssignment(1, 0, UNREVOKED, since(1, 0), since(1, 1))


def test_silence_is_no_confirmation_and_neither_is_holding_on() -> None:
    asked = CurrentAssignment(1, 0, UNREVOKED, since(1, 0), since(1, 1))
    assert moved(asked, 2, parts(0), owned=None) is asked
    assert moved(asked, 2, parts(0), owned=parts(0, 1)) is asked
    assert moved(asked, 2, parts(0), owned=parts(0)) == CurrentAssignment(2, 1, STABLE, since(1, 0))


def test_a_newer_target_may_ask_for_more_after_the_confirmation() -> None:
    asked = CurrentAssignment(1, 0, UNREVOKED, since(1, 0, 2), since(1, 1))
    after = moved(asked, 5, parts(0), owned=parts(0, 2))
    assert after == CurrentAssignment(2, 1, UNREVOKED, since(1, 0), since(1, 2))


def test_who_waits_for_others_may_be_asked_to_give_up_meanwhile() -> None:
    waits = CurrentAssignment(2, 1, UNRELEASED, since(2, 0, 1))
    assert moved(waits, 3, parts(0, 7), owned=parts(0, 1)).state is UNREVOKED


def test_what_it_no_longer_holds_needs_no_confirmation() -> None:
    after = moved(CurrentAssignment(1, 0, STABLE, since(1, 0, 1)), 2, parts(0), owned=parts(0))
    assert after == CurrentAssignment(2, 1, STABLE, since(1, 0))


def test_what_it_gave_up_and_shall_have_again_it_gets_back() -> None:
    asked = CurrentAssignment(1, 0, UNREVOKED, since(1, 0), since(1, 1))
    after = moved(asked, 3, parts(0, 1), owned=parts(0))
    assert after == CurrentAssignment(3, 1, STABLE, since(1, 0) | since(3, 1))


def test_a_state_of_the_future_begins_anew_with_a_member_that_owns_nothing() -> None:
    unknown = CurrentAssignment(4, 3, MemberState.UNKNOWN, {})
    assert must_be_fenced(member(unknown), None)
    assert must_be_fenced(member(unknown), parts(1))
    assert not must_be_fenced(member(unknown), parts())
    assert moved(unknown, 6, parts(0), owned=parts()).state is STABLE
