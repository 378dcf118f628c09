"""From one valid request to many that are borderline or wrong: one field changed at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.wire.primitives import NIL_UUID
from tests.contract.wire.shapes import Case
from tests.differential.shape import fields_of
from tests.differential.steps import IdOf, Plain

STRANGE_ID = b"stranger-topic-1"
LONG = "l" * 300

POOLS: Mapping[str, Sequence[Any]] = {
    "int8": (-1, 0, 1, 2, 3, 127),
    "int16": (-2, -1, 0, 1, 32767),
    "int32": (-2, -1, 0, 1, 99, 2**31 - 1, -(2**31)),
    "int64": (-2, -1, 0, 1, 99, 2**63 - 1, -(2**63)),
    "string": ("", "nobody-knows-it", "not a name!", "grün", LONG),
    "bytes": (b"", b"\x00" * 9),
    "uuid": (NIL_UUID, STRANGE_ID, IdOf("orders")),
    "bool": (False, True),
    "records": (),
}
"""What a field of a type is set to, unless its family says otherwise."""


class Mutation(NamedTuple):
    label: str
    request: Plain


def mutations(case: Case, plain: Plain, pools: Mapping[str, Sequence[Any]]) -> Iterator[Mutation]:
    """Every request that differs from `plain` in one field that this version has."""
    for path, changed in _of_struct(case, None, plain, pools):
        yield Mutation(path, changed)


def _of_struct(
    case: Case, struct: str | None, plain: Plain, pools: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Plain]]:
    for item in fields_of(case, struct):
        name = item.snake
        present = name in plain
        for label, value in _of_field(case, item, plain.get(name), present, pools):
            yield f"{name}{label}", {**plain, name: value}


def _of_field(
    case: Case, item: Any, value: Any, present: bool, pools: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Any]]:
    if case.is_nullable(item) and not (present and value is None):
        yield "=null", None
    if item.is_array:
        yield from _of_array(case, item, list(value or ()), pools)
    elif item.is_struct:
        if present and value is not None:
            yield from ((f".{path}", inner) for path, inner in _of_struct(case, item.element_type, value, pools))
    else:
        yield from ((f"={_shown(made)}", made) for made in _pool(item, pools) if not present or made != value)


def _of_array(case: Case, item: Any, value: list[Any], pools: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Any]]:
    if value:
        yield "=[]", []
        yield "=twice", [*value, value[0]]
    first = value[0] if value else None
    if not item.is_struct:
        for made in _pool(item, pools):
            if made != first:
                yield f"[0]={_shown(made)}", [made, *value[1:]]
                if value:
                    yield f"[+]={_shown(made)}", [*value, made]
    elif first is not None:
        for path, inner in _of_struct(case, item.element_type, first, pools):
            yield f"[0].{path}", [inner, *value[1:]]


def _pool(item: Any, pools: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    return pools.get(item.snake, POOLS.get(item.element_type, ()))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) < 40 else f"{text[:12]}...({len(text)})"


def some(found: list[Mutation], count: int, seed: str) -> list[Mutation]:
    """At most `count` of them, by chance that is the same in every run, in their own order."""
    if len(found) <= count:
        return found
    chosen = set(random.Random(seed).sample(range(len(found)), count))
    return [mutation for number, mutation in enumerate(found) if number in chosen]


def pairs(
    case: Case, found: list[Mutation], pools: Mapping[str, Sequence[Any]], count: int, seed: str
) -> Iterator[Mutation]:
    """Requests with two fields changed: which of two mistakes a broker tells first is part of its answer."""
    chance = random.Random(f"{seed} pairs")
    seen: set[str] = set()
    for _ in range(count if found else 0):
        first = chance.choice(found)
        field = first.label.partition("=")[0]
        others = [other for other in mutations(case, first.request, pools) if not other.label.startswith(field)]
        if others:
            second = chance.choice(others)
            label = f"{first.label} & {second.label}"
            if label not in seen:
                seen.add(label)
                yield Mutation(label, second.request)


Change = Callable[[bytes], bytes]

WRONG_FRAMES: Mapping[str, Change] = {
    "without its last byte": lambda frame: frame[:-1],
    "with a byte behind it": lambda frame: frame + b"\x00",
    "without a body": lambda frame: frame[: 10 + len("differential")],
    "body of ones": lambda frame: frame[: 10 + len("differential")] + b"\xff" * 32,
}
"""What is no request at all. Both brokers close the connection, or both can read it."""
