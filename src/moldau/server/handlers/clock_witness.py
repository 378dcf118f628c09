"""What clients' timestamps say about a wall clock that is in doubt. Only clients on other machines have a clock of
their own to say it by."""

from __future__ import annotations

import ipaddress

from moldau.model.failures import CorruptBatch
from moldau.records.batch import HEADER_BYTES, parse_header
from moldau.runtime.steady_clock import SteadyClock
from moldau.server.context import RequestContext
from moldau.wire.messages.produce import ProduceRequest


def ask(request: ProduceRequest, context: RequestContext, clock: SteadyClock) -> None:
    """Before anything is appended: what is refused for its timestamp may still tell the time."""
    if not has_own_clock(context.peer.peer_host, context.peer.dialled_host):
        return
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is None:
                continue
            try:
                header = parse_header(bytes(data.records[:HEADER_BYTES]), 0)
            except CorruptBatch:
                continue
            clock.witness(int(header.max_timestamp))


def has_own_clock(peer_host: str, own_host: str) -> bool:
    if peer_host == own_host:
        return False
    try:
        return not ipaddress.ip_address(peer_host).is_loopback
    except ValueError:
        return peer_host not in ("", "localhost")
