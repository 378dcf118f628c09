"""Every message in every version, from the tables, and random values for them."""

from __future__ import annotations

import random
import string
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools"))

from moldau.wire.primitives import NIL_UUID, Reader, Writer  # noqa: E402
from wiregen.classes import default_value, is_optional  # noqa: E402
from wiregen.layout import MessageLayouts  # noqa: E402
from wiregen.modules import names_used_twice  # noqa: E402
from wiregen.tables import Field, Message, read_tables  # noqa: E402

TABLES = read_tables(ROOT / "src" / "moldau" / "wire" / "schema")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "topic-1", "grün", "日本", "😀", "x" * 126, "y" * 127, "z" * 128)


@dataclass(frozen=True)
class Case:
    """One message in one version."""

    stem: str
    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}"

    @property
    def message(self) -> Message:
        return next(message for message in TABLES[self.stem] if message.name == self.name)

    @property
    def layouts(self) -> MessageLayouts:
        return _layouts(self.stem, self.name)

    @property
    def module(self) -> Any:
        return import_module(f"moldau.wire.messages.{self.stem}")

    def encode(self, value: Any) -> bytes:
        writer = Writer()
        getattr(self.module, f"encode_{self.message.snake}")(value, writer, self.version)
        return writer.take_bytes()

    def decode(self, data: bytes) -> Any:
        return self.decode_from(Reader(data))

    def decode_from(self, reader: Reader) -> Any:
        return getattr(self.module, f"decode_{self.message.snake}")(reader, self.version)

    def fields_of(self, struct: str | None) -> list[Field]:
        """The fields of a struct, or of the message, that this version has."""
        fields = self.message.fields if struct is None else self.layouts.definitions[struct]
        return [item for item in fields if item.versions.low <= self.version <= item.versions.high]

    def class_of(self, struct: str | None) -> Any:
        return getattr(self.module, self.name if struct is None else self.layouts.class_names[struct])

    def is_nullable(self, item: Field) -> bool:
        return item.nullable.low <= self.version <= item.nullable.high


@cache
def _layouts(stem: str, name: str) -> MessageLayouts:
    messages = TABLES[stem]
    message = next(message for message in messages if message.name == name)
    return MessageLayouts(message, names_used_twice(messages))


def all_cases(kinds: tuple[str, ...] | None = None) -> Iterator[Case]:
    for stem, messages in TABLES.items():
        for message in messages:
            if kinds is None or message.kind in kinds:
                for version in range(message.versions.low, message.versions.high + 1):
                    yield Case(stem, message.name, version)


CASES = list(all_cases())

Special = Callable[[random.Random, Field, Any], Any]
"""Asked first for the value of a field that is not a struct; None means no opinion."""


def random_message(case: Case, chance: random.Random, foreign: Any = None, special: Special | None = None) -> Any:
    return _random_struct(case, None, chance, foreign, special, 0)


def _random_struct(
    case: Case, struct: str | None, chance: random.Random, foreign: Any, special: Special | None, depth: int
) -> Any:
    values = {
        item.snake: _random_field(case, item, chance, foreign and foreign[index], special, depth)
        for index, item in enumerate(case.fields_of(struct))
    }
    return case.class_of(struct)(**values)


def _random_field(
    case: Case, item: Field, chance: random.Random, foreign: Any, special: Special | None, depth: int
) -> Any:
    if item.tag is not None and chance.random() < 0.4:
        return _default(case, item)
    if case.is_nullable(item) and chance.random() < 0.25:
        return None if item.tag is None or item.default == "null" else _default(case, item)
    if item.is_array:
        count = chance.choice((0, 1, 2, 3)) if depth < 2 else chance.choice((0, 1))
        return [_random_element(case, item, chance, foreign, special, depth) for _ in range(count)]
    return _random_element(case, item, chance, foreign, special, depth)


def _random_element(
    case: Case, item: Field, chance: random.Random, foreign: Any, special: Special | None, depth: int
) -> Any:
    if item.is_struct:
        inner = foreign.inner if foreign is not None else None
        made = _random_struct(case, item.element_type, chance, inner, special, depth + 1)
        absent = item.tag is not None and not item.is_array and not item.nullable
        return None if absent and made == type(made)() else made
    if special is not None:
        value = special(chance, item, foreign)
        if value is not None:
            return value
    return random_primitive(item.element_type, chance)


def random_primitive(kind: str, chance: random.Random) -> Any:
    if kind in BITS:
        top = 2 ** (BITS[kind] - 1)
        return chance.choice((0, 1, -1, top - 1, -top, chance.randrange(-top, top)))
    if kind == "uint16":
        return chance.choice((0, 1, 65535, chance.randrange(65536)))
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "float64":
        return chance.choice((0.0, 1.5, -1e300, chance.random()))
    if kind == "string":
        return chance.choice(TEXTS) if chance.random() < 0.5 else "".join(chance.choices(string.ascii_letters, k=9))
    if kind == "uuid":
        return NIL_UUID if chance.random() < 0.2 else chance.randbytes(16)
    return chance.randbytes(chance.choice((0, 1, 17, 127, 300)))


def _default(case: Case, item: Field) -> Any:
    text = default_value(item)
    if text == "EMPTY":
        return []
    if text == "NIL_UUID":
        return NIL_UUID
    return None if is_optional(item) and text == "None" else eval(text, {})
