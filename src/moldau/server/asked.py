"""Requests that take something away are told with who asked."""

from __future__ import annotations

import logging

from moldau.server.complaints import printable
from moldau.server.context import RequestContext

log = logging.getLogger("moldau.server")


def tell_asked(context: RequestContext, what: str) -> None:
    log.info("%s; asked by client %s at %s", what, printable(context.client_id or "-"), context.peer_host)
