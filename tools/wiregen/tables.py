"""The message tables: protocol facts as data, one file per API or message, and the reader of that format.

A table holds one or more messages. A message is a header line and its fields, nested by indentation of two spaces:

    request ProduceRequest key=0 versions=3-13 flexible=9+ listeners=broker
      TransactionalId string 3+ nullable=3+ default=null
      TopicData []TopicProduceData 0+
        Name string 0-12

A field line is `name type versions`, then what is special about it: `nullable=<versions>`, `tag=<number>` (the field is
a tagged one in all its versions), `default=<value>`. A type is a primitive, the name of a struct whose fields follow
one level deeper, or either with `[]` before it. `struct Name` opens a struct that several fields of a message share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

VERSION_TOP = 32767
PRIMITIVES = frozenset(
    ["bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "uuid", "bytes", "records"],
)


@dataclass(frozen=True, order=True)
class Versions:
    """An inclusive range of versions; empty when low is above high."""

    low: int
    high: int

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def covers(self, other: Versions) -> bool:
        return not other or (self.low <= other.low and other.high <= self.high)

    def hull(self, other: Versions) -> Versions:
        return Versions(min(self.low, other.low), max(self.high, other.high))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.high == VERSION_TOP:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NONE = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    if text == "none":
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_TOP)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


@dataclass
class Field:
    name: str
    type: str
    versions: Versions
    nullable: Versions = NONE
    tag: int | None = None
    default: str | None = None
    fields: list[Field] = field(default_factory=list)

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the field, or each of its elements, is a struct."""
        return self.element_type not in PRIMITIVES

    @property
    def snake(self) -> str:
        return snake_case(self.name)


@dataclass
class Struct:
    name: str
    fields: list[Field]


@dataclass
class Message:
    kind: str  # request, response, data, coordinator-key, coordinator-value
    name: str
    versions: Versions
    flexible: Versions
    key: int | None = None
    listeners: tuple[str, ...] = ()
    latest_unstable: bool = False
    fields: list[Field] = field(default_factory=list)
    shared: list[Struct] = field(default_factory=list)

    @property
    def snake(self) -> str:
        return snake_case(self.name)


@cache
def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# Reading


def read_tables(folder: Path) -> dict[str, list[Message]]:
    """All tables of a folder by their stem, in the order of file names."""
    return {path.stem: parse_table(path.read_text(), path.name) for path in sorted(folder.glob("*.table"))}


def parse_table(text: str, where: str = "table") -> list[Message]:
    messages: list[Message] = []
    nest: list[list[Field]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip(" "))) // 2
        try:
            if depth == 0:
                messages.append(_parse_header(words))
                nest = [messages[-1].fields]
            elif words[0] == "struct":
                messages[-1].shared.append(Struct(words[1], []))
                nest = [messages[-1].fields, messages[-1].shared[-1].fields]
            else:
                parsed = _parse_field(words)
                nest[depth - 1].append(parsed)
                nest[depth:] = [parsed.fields]
        except (IndexError, ValueError, KeyError) as problem:
            raise ValueError(f"{where}:{number}: {line.strip()!r}: {problem}") from problem
    return messages


def _parse_header(words: list[str]) -> Message:
    facts = dict(word.partition("=")[::2] for word in words[2:])
    return Message(
        kind=words[0],
        name=words[1],
        versions=parse_versions(facts["versions"]),
        flexible=parse_versions(facts["flexible"]),
        key=int(facts["key"]) if "key" in facts else None,
        listeners=tuple(facts["listeners"].split(",")) if "listeners" in facts else (),
        latest_unstable="latest_unstable" in facts,
    )


def _parse_field(words: list[str]) -> Field:
    facts = dict(word.partition("=")[::2] for word in words[3:])
    return Field(
        name=words[0],
        type=words[1],
        versions=parse_versions(words[2]),
        nullable=parse_versions(facts.get("nullable", "none")),
        tag=int(facts["tag"]) if "tag" in facts else None,
        default=facts.get("default"),
    )


# Writing


def format_table(messages: list[Message]) -> str:
    return "\n".join("\n".join(_message_lines(message)) + "\n" for message in messages)


def _message_lines(message: Message) -> Iterator[str]:
    words = [message.kind, message.name]
    if message.key is not None:
        words.append(f"key={message.key}")
    words += [f"versions={message.versions}", f"flexible={message.flexible}"]
    if message.listeners:
        words.append("listeners=" + ",".join(message.listeners))
    if message.latest_unstable:
        words.append("latest_unstable")
    yield " ".join(words)
    yield from _field_lines(message.fields, "  ")
    for struct in message.shared:
        yield f"  struct {struct.name}"
        yield from _field_lines(struct.fields, "    ")


def _field_lines(fields: list[Field], indent: str) -> Iterator[str]:
    for item in fields:
        words = [item.name, item.type, str(item.versions)]
        if item.nullable:
            words.append(f"nullable={item.nullable}")
        if item.tag is not None:
            words.append(f"tag={item.tag}")
        if item.default is not None:
            words.append(f"default={item.default}")
        yield indent + " ".join(words)
        yield from _field_lines(item.fields, indent + "  ")
