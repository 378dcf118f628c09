"""Questions a code generator asks of the tables: which structs there are, in which versions, how small they can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wiregen.tables import Field, Message, Versions

FIXED_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip


@dataclass
class Layout:
    """One class to generate: a message or a struct inside it, with the versions it can appear in."""

    class_name: str
    fields: list[Field]
    versions: Versions
    message: Message
    is_message: bool

    @property
    def flexible(self) -> Versions:
        return self.message.flexible


@dataclass(frozen=True)
class Segment:
    """A range of versions within which a field is laid out in one way."""

    versions: Versions
    compact: bool
    nullable: bool


class MessageLayouts:
    """The structs of one message, innermost first, the message itself last."""

    def __init__(self, message: Message, taken: frozenset[str]) -> None:
        self.message = message
        self.definitions = {struct.name: struct.fields for struct in message.shared}
        self.ranges: dict[str, Versions] = {}
        self.order: list[str] = []
        self._collect_definitions(message.fields)
        for struct in message.shared:
            self._collect_definitions(struct.fields)
        self._visit(message.fields, message.versions)
        self.class_names = {name: message.name + name if name in taken else name for name in self.order}

    def layouts(self) -> Iterator[Layout]:
        for name in self.order:
            yield Layout(self.class_names[name], self.definitions[name], self.ranges[name], self.message, False)
        yield Layout(self.message.name, self.message.fields, self.message.versions, self.message, True)

    def _collect_definitions(self, fields: list[Field]) -> None:
        for item in fields:
            if item.fields:
                if item.element_type in self.definitions:
                    raise ValueError(f"{self.message.name}: two structs called {item.element_type}")
                self.definitions[item.element_type] = item.fields
                self._collect_definitions(item.fields)

    def _visit(self, fields: list[Field], versions: Versions) -> None:
        for item in fields:
            inside = item.versions & versions
            if not item.is_struct or not inside:
                continue
            name = item.element_type
            self.ranges[name] = self.ranges[name].hull(inside) if name in self.ranges else inside
            self._visit(self.definitions[name], self.ranges[name])
            if name not in self.order:
                self.order.append(name)

    def minimum_bytes(self, item: Field, segment: Segment) -> int:
        """The fewest bytes one element of an array can take in any version of the segment."""
        low, high = segment.versions.low, segment.versions.high
        least = min(self._element_bytes(item, version) for version in range(low, high + 1))
        if least == 0:
            raise ValueError(f"{self.message.name}.{item.name}: elements without bytes")
        return least

    def _element_bytes(self, item: Field, version: int) -> int:
        if item.is_struct:
            return self._struct_bytes(self.definitions[item.element_type], version)
        return self._primitive_bytes(item.element_type, version)

    def _struct_bytes(self, fields: list[Field], version: int) -> int:
        tag_count = 1 if self._is_flexible(version) else 0
        return tag_count + sum(self._field_bytes(item, version) for item in fields if item.tag is None)

    def _field_bytes(self, item: Field, version: int) -> int:
        if not item.versions.low <= version <= item.versions.high:
            return 0
        if item.is_array:
            return 1 if self._is_flexible(version) else 4
        if item.is_struct:
            nullable = item.nullable.low <= version <= item.nullable.high
            return 1 if nullable else self._struct_bytes(self.definitions[item.type], version)
        return self._primitive_bytes(item.type, version)

    def _primitive_bytes(self, kind: str, version: int) -> int:
        if kind in FIXED_BYTES:
            return FIXED_BYTES[kind]
        if self._is_flexible(version):
            return 1
        return 2 if kind == "string" else 4

    def _is_flexible(self, version: int) -> bool:
        return self.message.flexible.low <= version <= self.message.flexible.high


def segments(item: Field, versions: Versions, flexible: Versions) -> list[Segment]:
    """Cut `versions` where the layout of the field changes; highest versions first."""
    cuts = {versions.low}
    for boundary in (flexible.low, flexible.high + 1, item.nullable.low, item.nullable.high + 1):
        if versions.low < boundary <= versions.high:
            cuts.add(boundary)
    found: list[Segment] = []
    high = versions.high
    for low in sorted(cuts, reverse=True):
        part = Versions(low, high)
        found.append(Segment(part, flexible.covers(part), item.nullable.covers(part)))
        high = low - 1
    return found


def condition(inner: Versions, outer: Versions) -> str:
    """Python for "the version lies in `inner`", knowing that it lies in `outer`; empty when always true."""
    at_least, at_most = inner.low > outer.low, inner.high < outer.high
    if at_least and at_most:
        if inner.low == inner.high:
            return f"version == {inner.low}"
        return f"{inner.low} <= version <= {inner.high}"
    if at_least:
        return f"version >= {inner.low}"
    if at_most:
        return f"version <= {inner.high}"
    return ""


def guarded_fields(layout: Layout) -> list[tuple[str, list[tuple[Field, Versions]]]]:
    """The untagged fields in wire order with their versions, neighbours under the same condition together."""
    groups: list[tuple[str, list[tuple[Field, Versions]]]] = []
    for item in layout.fields:
        inside = item.versions & layout.versions
        if item.tag is not None or not inside:
            continue
        guard = condition(inside, layout.versions)
        if not groups or groups[-1][0] != guard:
            groups.append((guard, []))
        groups[-1][1].append((item, inside))
    return groups
