"""When a request cannot be answered properly: our own mistakes, and versions nobody serves."""

from __future__ import annotations

import logging
from typing import Any

from moldau.model.errors import ErrorCode
from moldau.model.failures import DiskFailed
from moldau.server.complaints import printable
from moldau.server.context import RequestContext
from moldau.server.hub import Hub
from moldau.server.replies import Drop
from moldau.server.router import Route

log = logging.getLogger("moldau.server")


def own_fault(hub: Hub, route: Route, request: Any, context: RequestContext, error: BaseException) -> Any:
    """Log a failed handler with the request's identity and give the answer the client gets for it."""
    if isinstance(error, DiskFailed):
        code, detail = ErrorCode.KAFKA_STORAGE_ERROR, f"the disk refused: {error}"
        log.warning("%s: %s", describe(route, context), detail)
    else:
        code, detail = ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed unexpectedly; its log says more"
        hub.bugs_total += 1
        route.bugs += 1
        log.error("bug in %s", describe(route, context), exc_info=error)
    try:
        return route.refusal(request, context, code, detail)
    except Exception as second:  # a request too broken even to refuse
        log.error("bug while refusing %s", describe(route, context), exc_info=second)
        return Drop(detail)


def describe(route: Route, context: RequestContext) -> str:
    """A request's identity in one line, without its payload."""
    return (
        f"{route.name} v{context.api_version} correlation {context.correlation_id} "
        f"from {context.peer_host} client {printable(context.client_id or '-')}"
    )
