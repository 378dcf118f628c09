"""The bridge from Spark's synchronous callbacks to the asynchronous client.

One event loop thread per process and one open `Cluster` per address, both made on first use. Spark keeps the planning
process of a query and its Python workers alive, so connections stay warm from one micro-batch to the next. A forked
child starts afresh: neither threads nor sockets survive a fork.

    settings = Contact.of("localhost:9092", {"request.timeout.ms": "5000"})
    offsets = with_cluster(settings, lambda cluster: list_offsets(cluster, wanted))
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from moldau.client.cluster import Cluster
from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers
from moldau.model.errors import RETRIABLE, ErrorCode
from moldau.model.failures import MoldauError, PeerGone

T = TypeVar("T")

FIRST_CONTACT_MS: Final = 7_000
"""How long an address that has never answered is tried. With what Spark takes to start its processes a query without a
broker is told within some ten seconds."""
REQUEST_TIMEOUT_MS: Final = 30_000
API_TIMEOUT_MS: Final = 60_000
PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 1.0

_UNKNOWN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
"""Kafka calls them retriable; here the caller decides, because a deleted topic does not come back by waiting."""

logger = logging.getLogger("moldau.spark")


class BrokersUnreachable(MoldauError):
    """Nobody answers, for longer than the caller was ready to wait."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Where the cluster is and how patient to be. Equal contacts share one `Cluster`."""

    bootstrap: str
    client_id: str = "moldau-spark"
    first_contact_s: float = field(default=FIRST_CONTACT_MS / 1000, compare=False)
    request_timeout_s: float = REQUEST_TIMEOUT_MS / 1000
    api_timeout_s: float = API_TIMEOUT_MS / 1000

    @classmethod
    def of(cls, bootstrap: str, client: Mapping[str, str]) -> Contact:
        """From client settings without the prefix `kafka.`; those that are not set keep their defaults."""
        request_ms = int(client.get("request.timeout.ms", REQUEST_TIMEOUT_MS))
        return cls(
            bootstrap=bootstrap,
            client_id=client.get("client.id", "moldau-spark"),
            first_contact_s=int(client.get("request.timeout.ms", FIRST_CONTACT_MS)) / 1000,
            request_timeout_s=request_ms / 1000,
            api_timeout_s=int(client.get("default.api.timeout.ms", API_TIMEOUT_MS)) / 1000,
        )


# -- the loop ----------------------------------------------------------------------------------------------------------


class _Bridge:
    """The loop thread of this process and the clusters that live on it."""

    def __init__(self) -> None:
        from moldau.runtime.net import new_event_loop

        self.pid = os.getpid()
        self.clusters: dict[Contact, Cluster] = {}
        self.opening: dict[Contact, asyncio.Lock] = {}
        self.loop = new_event_loop()
        # A daemon: it must not keep a Python worker alive that Spark has let go.
        self.thread = threading.Thread(target=self.loop.run_forever, name="moldau-spark", daemon=True)
        self.thread.start()


_bridge: _Bridge | None = None
_making = threading.Lock()


def _the_bridge() -> _Bridge:
    global _bridge
    with _making:
        if _bridge is None or _bridge.pid != os.getpid():
            _bridge = _Bridge()
        return _bridge


def _forget_after_fork() -> None:
    global _bridge, _making
    _bridge, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


def submit(work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine on the loop thread. Whoever gets the future must ask it for its outcome."""
    return asyncio.run_coroutine_threadsafe(work, _the_bridge().loop)


def call(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop thread and wait for it. Interrupting the wait cancels the coroutine."""
    future = submit(work)
    try:
        return future.result()
    except (KeyboardInterrupt, concurrent.futures.CancelledError):
        future.cancel()
        raise


# -- clusters ----------------------------------------------------------------------------------------------------------


async def open_cluster(contact: Contact) -> Cluster:
    """The process's cluster for this contact, opened on first use. Only on the loop thread, that is inside `call`."""
    bridge = _the_bridge()
    if contact in bridge.clusters:
        return bridge.clusters[contact]
    async with bridge.opening.setdefault(contact, asyncio.Lock()):
        if contact not in bridge.clusters:
            bridge.clusters[contact] = await _first_contact(contact)
    return bridge.clusters[contact]


async def _first_contact(contact: Contact) -> Cluster:
    from moldau.runtime.net import RealNetwork

    deadline = time.monotonic() + contact.first_contact_s
    pause_s = PAUSE_MIN_S
    while True:
        left_s = max(0.5, deadline - time.monotonic())
        cluster = Cluster(RealNetwork(), contact.bootstrap, client_id=contact.client_id, timeout_s=left_s)
        try:
            await cluster.__aenter__()
            cluster.timeout_s = contact.request_timeout_s
            return cluster
        except NoBrokerAnswers as failure:
            if time.monotonic() + pause_s >= deadline:
                raise BrokersUnreachable(unreachable_message(contact, failure)) from failure
        await asyncio.sleep(pause_s)
        pause_s = min(PAUSE_MAX_S, pause_s * 2)


def unreachable_message(contact: Contact, failure: NoBrokerAnswers) -> str:
    why = failure.why.replace(f"no broker answers at {contact.bootstrap}: ", "")
    return (
        f"no broker answers at {contact.bootstrap} (tried for {contact.first_contact_s:g} s): {why}. "
        "Check the option kafka.bootstrap.servers and that a broker runs there (moldau up), "
        "also as seen from the machine this ran on; wait longer with kafka.request.timeout.ms"
    )


def with_cluster(contact: Contact, work: Callable[[Cluster], Awaitable[T]], *, what: str = "the request") -> T:
    """Run `work` on the shared cluster; what goes away by itself is tried again until the contact's API timeout.

    `work` must be safe to repeat. `what` names it in the log and in the error after the last try.
    """
    return call(patiently(contact, work, what=what))


async def patiently(contact: Contact, work: Callable[[Cluster], Awaitable[T]], *, what: str = "the request") -> T:
    """The same for callers that are on the loop thread already."""
    cluster = await open_cluster(contact)
    deadline = time.monotonic() + contact.api_timeout_s
    pause_s = PAUSE_MIN_S
    while True:
        try:
            return await work(cluster)
        except MoldauError as failure:
            if not goes_away(failure):
                raise
            if time.monotonic() + pause_s >= deadline:
                raise BrokersUnreachable(
                    f"{what} did not succeed within {contact.api_timeout_s:g} s at {contact.bootstrap}: {failure}. "
                    "Are all brokers running? Wait longer with kafka.default.api.timeout.ms"
                ) from failure
            logger.warning("%s will be tried again: %s", what, failure)
        await asyncio.sleep(pause_s)
        pause_s = min(PAUSE_MAX_S, pause_s * 2)
        # Whoever led before may be gone: ask again instead of trusting what was known.
        cluster.topics.clear()


def goes_away(failure: Exception) -> bool:
    """True for errors that end by themselves: a broker restarts, a leader moves, an answer is late."""
    if isinstance(failure, BrokerRefused):
        absent = failure.code is ErrorCode.BROKER_NOT_AVAILABLE  # the leader's broker is not back yet
        return absent or (failure.code in RETRIABLE and failure.code not in _UNKNOWN)
    return isinstance(failure, (PeerGone, NoBrokerAnswers, AnswerTimedOut))


def close_all() -> None:
    """Close every cluster of this process and stop its loop. Idle connections cost nothing: this is for tests."""
    global _bridge
    bridge, _bridge = _bridge, None
    if bridge is None or bridge.pid != os.getpid():
        return

    async def close() -> None:
        for cluster in bridge.clusters.values():
            await cluster.__aexit__()

    asyncio.run_coroutine_threadsafe(close(), bridge.loop).result(timeout=10)
    bridge.loop.call_soon_threadsafe(bridge.loop.stop)
    bridge.thread.join(timeout=10)
    bridge.loop.close()
