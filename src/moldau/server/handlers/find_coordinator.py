"""FindCoordinator (key 10): which broker answers for a group or a transactional id. One key up to version 3, many from
version 4 on.

Non-obvious: the coordinator's topic is created here, on first need. Kafka says COORDINATOR_NOT_AVAILABLE meanwhile and
lets the client ask again; we answer when the topic is there.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
BATCHED_FROM: Final = 4
NO_ERROR_TEXT: Final = "NONE"
"""What Kafka writes up to version 3 where nothing is wrong; later nothing."""


class Found(NamedTuple):
    node_id: int
    host: str
    port: int


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    directory = _directory(request.key_type, context)
    if isinstance(directory, Refused):
        return _answer(request, context, [directory] * len(_keys(request, context)))
    if directory.topic in context.services.images.image.topics_by_name:
        return _answer(request, context, [_find(directory, key, context) for key in _keys(request, context)])
    return _create_and_answer(request, context, directory)


def refuse(
    request: FindCoordinatorRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> FindCoordinatorResponse:
    known = FindCoordinatorRequest() if request is None else request
    return _answer(known, context, [Refused(code, detail)] * len(_keys(known, context)))


def _keys(request: FindCoordinatorRequest, context: RequestContext) -> list[str]:
    return request.coordinator_keys if context.api_version >= BATCHED_FROM else [request.key]


def _directory(key_type: int, context: RequestContext) -> Any:
    """The `ShardDirectory` behind a kind of key."""
    services = context.services
    if key_type == GROUP:
        directory = services.group_shards
    elif key_type == TRANSACTION:
        directory = services.transaction_shards
    else:
        # Share coordinators exist from version 6 on, and only where share groups do.
        return Refused(ErrorCode.INVALID_REQUEST, f"no coordinator for keys of type {key_type}")
    if directory is None:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this node has no such coordinator")
    return directory


async def _create_and_answer(
    request: FindCoordinatorRequest, context: RequestContext, directory: Any
) -> FindCoordinatorResponse:
    keys = _keys(request, context)
    refused = await directory.ensure_topic()
    if refused is not None:
        unavailable = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, refused.detail)
        return _answer(request, context, [unavailable] * len(keys))
    return _answer(request, context, [_find(directory, key, context) for key in keys])


def _find(directory: Any, key: str, context: RequestContext) -> Found | Refused:
    services = context.services
    node_id = directory.coordinator_of(key)
    if node_id == services.node_id:
        return Found(node_id, *context.advertised())
    broker = services.images.image.brokers.get(node_id)
    endpoint = None if broker is None or broker.fenced else broker.endpoint(context.listener)
    if endpoint is None:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's partition has no leader")
    return Found(node_id, endpoint.host, endpoint.port)


def _answer(request: FindCoordinatorRequest, context: RequestContext, found: list[Any]) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_FROM:
        pairs = zip(request.coordinator_keys, found, strict=True)
        return FindCoordinatorResponse(coordinators=[_row(key, one) for key, one in pairs])
    row = _row("", found[0])
    return FindCoordinatorResponse(
        error_code=row.error_code,
        error_message=row.error_message or NO_ERROR_TEXT,
        node_id=row.node_id,
        host=row.host,
        port=row.port,
    )


def _row(key: str, found: Found | Refused) -> Coordinator:
    if isinstance(found, Refused):
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=int(found.code), error_message=found.detail
        )
    return Coordinator(key=key, node_id=found.node_id, host=found.host, port=found.port)
