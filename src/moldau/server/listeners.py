"""Listeners: where the node listens, what it is called there, and what clients are told.

`listeners=PLAINTEXT://localhost:9092,INTERNAL://:9094` names sockets; `listener.security.protocol.map` says what each
name speaks; `advertised.listeners` says what clients are told. Without an advertised address a client is told the
address it dialled - the connection's own local address, or the name the listener was bound to - so that containers,
port forwards to loopback and several network cards work without configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ANY_HOSTS: Final = ("", "0.0.0.0", "::")


class ListenerProblem(ValueError):
    """A listener setting that cannot work; the text says which part and why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One `NAME://host:port`. An empty host means every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A listener as configured."""

    endpoint: Endpoint
    security_protocol: str
    advertised: Endpoint | None

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def authenticates(self) -> bool:
        """Clients must prove who they are with SASL before they may ask anything else."""
        return self.security_protocol.startswith("SASL_")

    @property
    def encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")


def parse_endpoint(text: str, key: str) -> Endpoint:
    """`NAME://host:port`, with an IPv6 host in brackets, or `host:port` which is PLAINTEXT."""
    name, separator, rest = text.strip().partition("://")
    if not separator:
        name, rest = "PLAINTEXT", text.strip()
    host, colon, port_text = rest.rpartition(":")
    if not colon or not port_text.isdigit() or int(port_text) > 65535:
        raise ListenerProblem(f"{key}: '{text}' is not NAME://host:port with a port between 0 and 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ListenerProblem(
            f"{key}: '{text}' has an IPv6 address without brackets; write NAME://[{host}]:{port_text}"
        )
    if not name or not all(character.isalnum() or character in "_-." for character in name):
        raise ListenerProblem(f"{key}: '{name}' is not a listener name")
    return Endpoint(name.upper(), host, int(port_text))


def parse_protocol_map(entries: Sequence[str]) -> dict[str, str]:
    """`NAME:PROTOCOL` entries; the four protocols name themselves."""
    protocols = {name: name for name in SECURITY_PROTOCOLS}
    for entry in entries:
        name, _, protocol = entry.strip().partition(":")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ListenerProblem(
                f"listener.security.protocol.map: '{entry}' names no security protocol; "
                f"known are {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


class Listeners:
    """The node's listeners: what was configured, and which addresses they were bound to."""

    def __init__(self, specs: Sequence[ListenerSpec]) -> None:
        self.specs = tuple(specs)
        self.bound: dict[str, Endpoint] = {}
        """By name, with the real port, once the server listens."""
        self._by_name = {spec.name: spec for spec in self.specs}

    @classmethod
    def parse(
        cls, listeners: Sequence[str], advertised: Sequence[str] = (), protocol_map: Sequence[str] = ()
    ) -> Listeners:
        """Read the three settings together; every mistake names its key."""
        protocols = parse_protocol_map(protocol_map)
        told = [parse_endpoint(text, "advertised.listeners") for text in advertised]
        specs: list[ListenerSpec] = []
        for text in listeners:
            endpoint = parse_endpoint(text, "listeners")
            if endpoint.name in [spec.name for spec in specs]:
                raise ListenerProblem(f"listeners: the name {endpoint.name} is used twice")
            protocol = protocols.get(endpoint.name)
            if protocol is None:
                raise ListenerProblem(
                    f"listeners: {endpoint.name} is in no entry of listener.security.protocol.map; "
                    f"add {endpoint.name}:PLAINTEXT (or another protocol)"
                )
            match = [one for one in told if one.name == endpoint.name]
            specs.append(ListenerSpec(endpoint, protocol, match[0] if match else None))
        names = [spec.name for spec in specs]
        for one in told:
            if one.name not in names:
                raise ListenerProblem(f"advertised.listeners: {one.name} is not among listeners")
            if one.host in ANY_HOSTS:
                raise ListenerProblem(f"advertised.listeners: {one} has no host a client could dial")
        if not specs:
            raise ListenerProblem("listeners: at least one listener is needed")
        return cls(specs)

    @classmethod
    def from_settings(cls, settings: Any) -> Listeners:
        return cls.parse(
            settings.list("listeners"),
            settings.list("advertised.listeners") or (),
            settings.list("listener.security.protocol.map") or (),
        )

    def advertised(self, listener: str, dialled_host: str, dialled_port: int) -> tuple[str, int]:
        """What a client on `listener` that dialled this address is told."""
        spec = self._by_name.get(listener)
        if spec is None:
            return dialled_host, dialled_port
        if spec.advertised is not None:
            return spec.advertised.host, spec.advertised.port or dialled_port
        if spec.endpoint.host not in ANY_HOSTS:
            bound = self.bound.get(listener)
            return spec.endpoint.host, bound.port if bound is not None else dialled_port
        return dialled_host, dialled_port

    def registered(self) -> list[tuple[str, str, int, str]]:
        """(name, host, port, security protocol) of each listener, for the broker's registration: the advertised
        address, or the bound one."""
        rows: list[tuple[str, str, int, str]] = []
        for spec in self.specs:
            bound = self.bound.get(spec.name, spec.endpoint)
            host, port = self.advertised(spec.name, bound.host or "localhost", bound.port)
            rows.append((spec.name, host, port, spec.security_protocol))
        return rows
