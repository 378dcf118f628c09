"""What coordinators decided, in words: at debug when somebody asked for it, at info when only time did."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from moldau.core.group.consumer.records import GroupEpoch, GroupEpochStored, MemberMetadata, MemberStored
from moldau.core.group.records import GroupMetadata, GroupStored, OffsetCommitted
from moldau.core.transaction.records import Transaction, TransactionStored
from moldau.runtime.logs import one_line

log = logging.getLogger("moldau.coordinator")


def tell(records: Iterable[Any]) -> None:
    if log.isEnabledFor(logging.DEBUG):
        for record in records:
            if (text := words(record)) is not None:
                log.debug("%s", text)


def tell_expired(records: Iterable[Any]) -> None:
    """Decided because a deadline had passed: nobody was there to be told."""
    if log.isEnabledFor(logging.INFO):
        for record in records:
            if (text := words(record)) is not None:
                log.info("%s, because a deadline passed", text)


def words(record: Any) -> str | None:
    """A line for what changes a group or a transaction; None for commits of offsets and other everyday things."""
    match record:
        case GroupStored(group_id, None):
            return f"group {one_line(group_id)} is gone"
        case GroupStored(group_id, GroupMetadata() as value):
            return f"group {one_line(group_id)} is at generation {value.generation} with {len(value.members)} members"
        case MemberStored(group_id, member_id, None):
            return f"group {one_line(group_id)}: member {one_line(member_id)} is out"
        case MemberStored(group_id, member_id, MemberMetadata() as value):
            who = f"client {one_line(value.client_id)} at {value.client_host}"
            return f"group {one_line(group_id)}: member {one_line(member_id)} is in or changed ({who})"
        case GroupEpochStored(group_id, GroupEpoch() as value):
            return f"group {one_line(group_id)} is at epoch {value.epoch}"
        case OffsetCommitted(group_id, topic, partition, None):
            return f"group {one_line(group_id)}: the offset on {topic}-{partition} is forgotten"
        case TransactionStored(transactional_id, None):
            return f"transactional id {one_line(transactional_id)} is forgotten"
        case TransactionStored(transactional_id, Transaction() as transaction):
            state = f"{transaction.state.name.lower()} with {len(transaction.partitions)} partitions"
            return f"transactional id {one_line(transactional_id)}: {state}, epoch {transaction.producer_epoch}"
    return None
