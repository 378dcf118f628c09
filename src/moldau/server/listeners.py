"""Listeners: where the node listens, what it is called there, and what clients are told.

The settings (`config/listeners.py`) read `listeners`, `listener.security.protocol.map` and `advertised.listeners`; this
is what the server makes of them. Without an advertised address a client is told the
address it dialled - the connection's own local address, or the name the listener was bound to - so that containers,
port forwards to loopback and several network cards work without configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ANY_HOSTS: Final = ("", "0.0.0.0", "::")


class ListenerProblem(ValueError):
    """A listener that cannot be served as it was asked for; the text says which and why."""


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


class Listeners:
    """The node's listeners: what was configured, and which addresses they were bound to."""

    def __init__(self, specs: Sequence[ListenerSpec]) -> None:
        self.specs: tuple[ListenerSpec, ...] = ()
        self.bound: dict[str, Endpoint] = {}
        """By name, with the real port, once the server listens."""
        self._by_name: dict[str, ListenerSpec] = {}
        self.configure(specs)

    def configure(self, specs: Sequence[ListenerSpec]) -> None:
        """Take other listeners in place of these; the server opens and closes them."""
        self.specs = tuple(specs)
        self._by_name = {spec.name: spec for spec in self.specs}

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
