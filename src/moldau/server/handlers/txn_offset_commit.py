"""TxnOffsetCommit (key 28): remember how far a group has read, if the transaction commits.

Version 3 carries the member's generation, so that a member that lost its partitions cannot commit for them (KIP-447).
With version 5 (transactions v2) the call itself makes the group part of the transaction; before, AddOffsetsToTxn did,
and it is only verified here.

Non-obvious: the offsets are appended inside the verification's answer, before anything else can happen to the
transaction. A turn of the loop between the two would let its end marker overtake them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.broker.shards.runtime import Producer, ShardRuntime
from moldau.core.group.commands import OffsetToCommit, TopicToCommit, TxnOffsetCommit
from moldau.core.group.replies import OffsetCommitReply
from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_later
from moldau.server.handlers.transaction_errors import of_offset_commit
from moldau.server.parking import Parked
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

IMPLICIT_FROM: Final = 5


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse | Parked:
    services = context.services
    if services.group_shards is None or services.transactions is None:
        return refuse(request, context, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    topics = _existing(request, services.images.image)
    if not topics:
        return _response(OffsetCommitReply(()), request, context)
    if not request.group_id:
        return refuse(request, context, ErrorCode.INVALID_GROUP_ID, "")
    command = TxnOffsetCommit(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        topics,
    )
    shard = services.group_shards.find(request.group_id)
    return ask_later(
        lambda deliver: _verify_and_commit(shard, command, context, deliver),
        lambda reply: _response(reply, request, context),
    )


def refuse(
    request: TxnOffsetCommitRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> TxnOffsetCommitResponse:
    if request is None:
        return TxnOffsetCommitResponse()
    return _response(Refused(code, detail), request, context)


def _verify_and_commit(
    shard: ShardRuntime | Refused, command: TxnOffsetCommit, context: RequestContext, deliver: Callable[[Any], None]
) -> None:
    refused = shard if isinstance(shard, Refused) else shard.refusal()
    if refused is not None or isinstance(shard, Refused):
        deliver(refused)
        return
    producer = Producer(command.producer_id, command.producer_epoch)
    if context.services.transactions.verifier.is_ghost(command.group_id, *producer, context.peer.number):
        deliver(Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "its client has gone on, on a newer connection"))
        return
    if shard.partition.log.producers.has_open_transaction(*producer):
        shard.submit_to(command, deliver, producer=producer)
        return
    key = TopicPartition(shard.partition.topic, int(shard.partition.index))

    def verified(verdicts: Mapping[TopicPartition, ErrorCode]) -> None:
        code = verdicts[key]
        if code is ErrorCode.NONE:
            shard.submit_to(command, deliver, producer=producer)
        else:
            deliver(Refused(code))

    context.services.transactions.verifier.ask(
        command.transactional_id,
        *producer,
        frozenset({key}),
        verified,
        add=context.api_version >= IMPLICIT_FROM,
    )


def _existing(request: TxnOffsetCommitRequest, image: MetadataImage) -> tuple[TopicToCommit, ...]:
    topics = []
    for asked in request.topics:
        topic = image.topics_by_name.get(asked.name)
        count = 0 if topic is None else len(topic.partitions)
        partitions = tuple(
            OffsetToCommit(
                row.partition_index, row.committed_offset, row.committed_leader_epoch, row.committed_metadata
            )
            for row in asked.partitions
            if 0 <= row.partition_index < count
        )
        if partitions:
            topics.append(TopicToCommit(asked.name, partitions))
    return tuple(topics)


def _response(reply: Any, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    version = int(context.api_version)
    if isinstance(reply, Refused):
        code = of_offset_commit(reply.code, version)
        return TxnOffsetCommitResponse(topics=[_rows(asked, {}, code) for asked in request.topics])
    errors = {topic.topic: dict(topic.partitions) for topic in reply.topics}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponse(
        topics=[_rows(asked, errors.get(asked.name, {}), missing) for asked in request.topics]
    )


def _rows(
    asked: TxnOffsetCommitRequestTopic, errors: Mapping[int, ErrorCode], missing: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=asked.name,
        partitions=[
            TxnOffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=int(errors.get(row.partition_index, missing))
            )
            for row in asked.partitions
        ],
    )
