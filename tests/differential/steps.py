"""What a scenario consists of: requests as plain data, with places for what earlier answers have told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from moldau.records.builder import BatchBuilder
from moldau.wire.apis import API_SPECS, ApiKey

Plain = Mapping[str, Any]
"""A message or a struct of it: fields that are not named have their default, fields its version lacks are left out."""

LONG_AGO_MS = 1_700_000_000_000


class Known(Protocol):
    """What earlier answers have told."""

    def bound(self, name: str) -> Any: ...

    def topic_id(self, name: str) -> bytes: ...


class Later:
    """A value that is known only when the request is sent."""

    def value(self, known: Known) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Ref(Later):
    """What an earlier step has bound to this name."""

    name: str
    plus: int = 0

    def value(self, known: Known) -> Any:
        found = known.bound(self.name)
        return found + self.plus if self.plus else found


@dataclass(frozen=True)
class IdOf(Later):
    """The id of the topic that has this name."""

    topic: str

    def value(self, known: Known) -> bytes:
        return known.topic_id(self.topic)


@dataclass(frozen=True)
class Batch(Later):
    """A record batch. Records are (key, value), (key, value, timestamp) or (key, value, timestamp, headers)."""

    records: Sequence[tuple[Any, ...]] = ((b"k", b"v"),)
    codec: int = 0
    producer_id: Any = -1
    producer_epoch: Any = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    change: Callable[[bytes], bytes] | None = None

    def value(self, known: Known) -> bytes:
        builder = BatchBuilder(
            codec=self.codec,
            producer_id=resolve(self.producer_id, known),
            producer_epoch=resolve(self.producer_epoch, known),
            base_sequence=self.base_sequence,
            transactional=self.transactional,
            control=self.control,
        )
        for number, record in enumerate(self.records):
            key, value, *rest = record
            timestamp = rest[0] if rest else LONG_AGO_MS + number
            builder.append(key, value, rest[1] if len(rest) > 1 else (), timestamp)
        made = builder.build()
        return made if self.change is None else self.change(made)


def resolve(value: Any, known: Known) -> Any:
    """The value with everything in it that had to wait."""
    if isinstance(value, Later):
        return value.value(known)
    if isinstance(value, Mapping):
        return {key: resolve(inner, known) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolve(inner, known) for inner in value]
    return value


@dataclass(frozen=True)
class Step:
    """One request and what to do with its answer."""

    api: ApiKey
    version: int
    request: Plain
    label: str = ""
    on: str = "main"
    """The connection it goes over."""
    bind: Mapping[str, str] = field(default_factory=dict)
    """Names for parts of the answer: `{"member": "member_id"}`."""
    change: Callable[[bytes], bytes] | None = None
    """Makes the frame (without its size) a wrong one."""
    until: tuple[str, Any] | None = None
    """Ask again until this part of the answer (`[*]`: in every element) has this value: what a broker does behind an
    answer takes its time."""
    answered: str = "now"
    """`now`; `later`: a step with `collect` waits for the answer; `never`: nothing may come."""
    collect: bool = False
    """No request: wait for the answer of the step before it on this connection."""

    @property
    def name(self) -> str:
        return f"{API_SPECS[self.api].name} v{self.version}"


@dataclass(frozen=True)
class Scenario:
    """Steps that build on each other, over names that no other scenario uses."""

    name: str
    api: ApiKey
    """Under which its answers are counted."""
    steps: tuple[Step, ...]

    def with_steps(self, steps: Sequence[Step]) -> Scenario:
        return replace(self, steps=tuple(steps))


def named(value: Any, suffix: str) -> Any:
    """The same data with `~` in every text replaced: names that belong to one scenario alone."""
    if isinstance(value, str):
        return value.replace("~", suffix)
    if isinstance(value, IdOf):
        return IdOf(named(value.topic, suffix))
    if isinstance(value, Mapping):
        return {key: named(inner, suffix) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [named(inner, suffix) for inner in value]
    return value


def latest(api: ApiKey) -> int:
    return API_SPECS[api].advertised_max_version
