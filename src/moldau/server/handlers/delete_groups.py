"""DeleteGroups (key 42): remove groups without members, with their offsets."""

from __future__ import annotations

from typing import Any

from moldau.core.group.commands import DeleteGroups
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(request: DeleteGroupsRequest, context: RequestContext) -> Parked:
    shards = context.services.group_shards
    questions = [(shards.find(group_id), DeleteGroups((group_id,))) for group_id in request.groups_names]
    return ask_shards(questions, lambda found: _response(found, request))


def refuse(
    request: DeleteGroupsRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> DeleteGroupsResponse:
    groups = [] if request is None else request.groups_names
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=int(code)) for group_id in groups]
    )


def _response(found: list[Any], request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    for group_id, reply in zip(request.groups_names, found, strict=True):
        code = reply.code if isinstance(reply, Refused) else reply.groups[0][1]
        response.results.append(DeletableGroupResult(group_id=group_id, error_code=int(code)))
    return response
