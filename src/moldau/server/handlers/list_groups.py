"""ListGroups (key 16): the groups this broker coordinates, filtered by state (version 4) and type (version 5).

Non-obvious: a shard that moved away meanwhile is left out, its new owner lists it; one that still loads makes the whole
answer an error, because a list with holes would be believed.
"""

from __future__ import annotations

from typing import Any

from moldau.core.group.commands import ListGroups
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, context: RequestContext) -> Parked:
    command = ListGroups(tuple(request.states_filter), tuple(request.types_filter))
    return ask_shards([(shard, command) for shard in context.services.group_shards.all()], _response)


def _response(found: list[Any]) -> ListGroupsResponse:
    response = ListGroupsResponse()
    for reply in found:
        if not isinstance(reply, Refused):
            response.groups += [
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.type,
                )
                for group in reply.groups
            ]
        elif reply.code is not ErrorCode.NOT_COORDINATOR:
            return ListGroupsResponse(error_code=int(reply.code))
    return response
