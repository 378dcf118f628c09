"""Rules between broker settings, checked once everything is assembled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from moldau.config import topic_settings
from moldau.config.listeners import (
    ListenerAddress,
    duplicates,
    parse_connection_overrides,
    parse_listener,
    parse_protocol_map,
)
from moldau.config.mistakes import Mistake
from moldau.config.parsing import BadValue

if TYPE_CHECKING:
    from moldau.config.settings import Settings

_SERVED_PROTOCOLS: Final = ("PLAINTEXT",)
"""Security protocols that listeners can speak today."""


def broker_mistakes(settings: Settings) -> list[Mistake]:
    """Everything that does not fit together."""
    return [mistake for rule in _RULES for mistake in rule(settings)]


def _ids_agree(settings: Settings) -> Iterator[Mistake]:
    broker_id = settings.int("broker.id")
    if settings.is_set("broker.id") and broker_id >= 0 and settings.node_id != broker_id:
        what = f"node.id is {settings.node_id} and broker.id is {broker_id}; they name the same thing"
        yield Mistake(settings.origin("broker.id"), what, "remove broker.id")
    if settings.node_id < 0:
        yield Mistake(settings.origin("broker.id"), "a node needs a number of its own, 0 or above", "set node.id=1")


def _roles_fit(settings: Settings) -> Iterator[Mistake]:
    if "broker" not in settings.list("process.roles"):
        what = "process.roles: every moldau node is a broker, and one of them is elected controller"
        yield Mistake(settings.origin("process.roles"), what, "process.roles=broker,controller, or remove the line")


def _listeners_fit(settings: Settings) -> Iterator[Mistake]:
    origin = settings.origin("listeners")
    try:
        listeners = [parse_listener(text) for text in settings.list("listeners")]
        protocols = parse_protocol_map(settings.str("listener.security.protocol.map"))
    except BadValue as problem:
        yield Mistake(origin, f"listeners: {problem}", "for example listeners=PLAINTEXT://0.0.0.0:9092")
        return
    if not settings.listeners():
        yield Mistake(origin, "there is no listener for clients", "for example listeners=PLAINTEXT://0.0.0.0:9092")
    for name in duplicates(listener.name for listener in listeners):
        yield Mistake(origin, f"listeners: the name {name} occurs twice", "give each listener a name of its own")
    for port in duplicates((listener.host, listener.port) for listener in listeners if listener.port):
        yield Mistake(origin, f"listeners: {port} is used twice", "give each listener a port of its own")
    for listener in settings.listeners():
        yield from _protocol_mistakes(settings, listener, protocols.get(listener.name), origin)


def _protocol_mistakes(
    settings: Settings, listener: ListenerAddress, protocol: str | None, origin: str
) -> Iterator[Mistake]:
    if protocol is None:
        mapped = f"{settings.str('listener.security.protocol.map')},{listener.name}:PLAINTEXT"
        what = f"listeners: no security protocol is known for {listener.name}"
        yield Mistake(origin, what, f"listener.security.protocol.map={mapped}")
    elif protocol not in _SERVED_PROTOCOLS:
        # Serving such a listener in the clear would be worse than not starting.
        what = f"listeners: {listener.name} speaks {protocol}, which moldau does not serve yet"
        yield Mistake(origin, what, "use PLAINTEXT on a network you trust")


def _advertised_fit(settings: Settings) -> Iterator[Mistake]:
    origin = settings.origin("advertised.listeners")
    try:
        advertised = [parse_listener(text) for text in settings.list("advertised.listeners")]
        known = {parse_listener(text).name for text in settings.list("listeners")}
    except BadValue as problem:
        if settings.is_set("advertised.listeners"):
            yield Mistake(origin, f"advertised.listeners: {problem}", "NAME://host:port, as in listeners")
        return
    for listener in advertised:
        if listener.host in ("0.0.0.0", "::"):
            what = f"advertised.listeners: clients cannot connect to {listener.host}"
            yield Mistake(origin, what, "name a host they reach, or leave it out to advertise what they dialled")
        if listener.name not in known:
            what = f"advertised.listeners: there is no listener {listener.name}"
            yield Mistake(origin, what, f"add {listener.name}://0.0.0.0:{listener.port} to listeners")


def _directories_exist(settings: Settings) -> Iterator[Mistake]:
    key = "log.dirs" if settings.is_set("log.dirs") else "log.dir"
    if not settings.log_dirs:
        yield Mistake(settings.origin(key), f"{key} names no directory", "log.dirs=/var/lib/moldau")
    for directory in duplicates(settings.log_dirs):
        yield Mistake(settings.origin(key), f"{key}: {directory} occurs twice", "name each directory once")


def _times_fit(settings: Settings) -> Iterator[Mistake]:
    if settings.retention_ms() == 0:
        origin = _first_origin(settings, "log.retention.ms", "log.retention.minutes", "log.retention.hours")
        yield Mistake(origin, "a retention of 0 would delete everything at once", "use -1 to keep for ever")
    for key in ("segment.ms", "segment.jitter.ms"):
        value = topic_settings.broker_default(settings, key)
        low = 1 if key == "segment.ms" else 0
        if isinstance(value, int) and value < low:
            name = "log.roll.ms" if key == "segment.ms" else "log.roll.jitter.ms"
            yield Mistake(settings.origin(name), f"{name}: Value must be at least {low}")
    least, most = settings.int("log.cleaner.min.compaction.lag.ms"), settings.int("log.cleaner.max.compaction.lag.ms")
    if least > most:
        what = f"log.cleaner.min.compaction.lag.ms ({least}) > log.cleaner.max.compaction.lag.ms ({most})"
        yield Mistake(settings.origin("log.cleaner.min.compaction.lag.ms"), what)
    wait, lag = settings.int("replica.fetch.wait.max.ms"), settings.int("replica.lag.time.max.ms")
    if wait > lag:
        what = f"replica.fetch.wait.max.ms ({wait}) > replica.lag.time.max.ms ({lag}): replicas would drop out of sync"
        yield Mistake(settings.origin("replica.fetch.wait.max.ms"), what, "keep the wait below the lag")


def _ranges_fit(settings: Settings) -> Iterator[Mistake]:
    for low, high in _ORDERED:
        if settings.int(low) > settings.int(high):
            what = f"{low} ({settings.int(low)}) > {high} ({settings.int(high)})"
            yield Mistake(_first_origin(settings, low, high), what)
    if (
        settings.float("log.cleaner.io.buffer.load.factor") > 1
        or settings.float("log.cleaner.io.buffer.load.factor") <= 0
    ):
        yield Mistake(settings.origin("log.cleaner.io.buffer.load.factor"), "the load factor lies between 0 and 1")
    if settings.int("log.cleaner.dedupe.buffer.size") < 1 << 20:
        what = "log.cleaner.dedupe.buffer.size must be at least 1 MiB"
        yield Mistake(settings.origin("log.cleaner.dedupe.buffer.size"), what)
    budget = settings.int("queued.max.request.bytes")
    if 0 < budget < settings.int("socket.request.max.bytes"):
        what = f"queued.max.request.bytes ({budget}) < socket.request.max.bytes: the largest request would never fit"
        yield Mistake(settings.origin("queued.max.request.bytes"), what, "raise the first or lower the second")


def _overrides_parse(settings: Settings) -> Iterator[Mistake]:
    try:
        parse_connection_overrides(settings.str("max.connections.per.ip.overrides"))
    except BadValue as problem:
        yield Mistake(
            settings.origin("max.connections.per.ip.overrides"), f"max.connections.per.ip.overrides: {problem}"
        )


def _first_origin(settings: Settings, *keys: str) -> str:
    return next((settings.origin(key) for key in keys if settings.is_set(key)), "default")


_ORDERED: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
    ("delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
)
"""(smaller, larger) pairs."""

_RULES: Final[tuple[Callable[[Settings], Iterator[Mistake]], ...]] = (
    _ids_agree,
    _roles_fit,
    _listeners_fit,
    _advertised_fit,
    _directories_exist,
    _times_fit,
    _ranges_fit,
    _overrides_parse,
)
