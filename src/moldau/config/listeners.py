"""`listeners` and `advertised.listeners`: NAME://host:port, comma-separated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from moldau.config.parsing import BadValue

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerAddress(NamedTuple):
    """Where to listen, or what to tell clients. An empty host means every address."""

    name: str
    host: str
    port: int


def parse_listener(text: str) -> ListenerAddress:
    """`EXTERNAL://[::1]:9092` -> its parts. Names are upper case, as Kafka writes them."""
    name, separator, address = text.strip().partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not name or not colon or not port.isascii() or not port.isdigit():
        raise BadValue(f"'{text}' is not of the form NAME://host:port")
    if int(port) > 65535:
        raise BadValue(f"'{text}': a port is at most 65535")
    if host.startswith("[") != host.endswith("]") or (":" in host and not host.startswith("[")):
        raise BadValue(f"'{text}': an IPv6 address stands in square brackets")
    return ListenerAddress(name.upper(), host.strip("[]"), int(port))


def parse_protocol_map(text: str) -> dict[str, str]:
    """`EXTERNAL:PLAINTEXT,INTERNAL:SSL` -> {listener name: protocol}."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = pair.partition(":")
        if not separator or protocol.strip().upper() not in PROTOCOLS:
            raise BadValue(f"'{pair}' is not of the form NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_connection_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: `10.0.0.1:5,host:7` -> {host: count}."""
    overrides: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, separator, count = pair.rpartition(":")
        if not separator or not host or not count.isascii() or not count.isdigit():
            raise BadValue(f"'{pair}' is not of the form address:count")
        overrides[host.strip("[]")] = int(count)
    return overrides


def duplicates(values: Iterable[object]) -> list[object]:
    """Values that occur more than once, in order."""
    seen: set[object] = set()
    return [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
