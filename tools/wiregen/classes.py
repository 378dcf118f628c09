"""Emit the message classes."""

from __future__ import annotations

from collections.abc import Iterator

from wiregen.layout import Layout, MessageLayouts
from wiregen.tables import Field

PYTHON_TYPES = {
    "bool": "bool", "int8": "i16", "int16": "i16", "uint16": "i32", "int32": "i32", "uint32": "i64", "int64": "i64",
    "float64": "float", "string": "str", "uuid": "bytes", "bytes": "bytes",
}  # fmt: skip
ELEMENT_TYPES = PYTHON_TYPES | dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), "int")
DEFAULTS = {"bool": "False", "float64": "0.0", "string": '""', "uuid": "NIL_UUID", "bytes": 'b""', "records": "None"}


def value_type(item: Field, layouts: MessageLayouts) -> str:
    """The type of the attribute. An absent tagged struct is None: nothing is allocated for what is not sent."""
    kind = item.element_type
    if kind == "records":
        return "RecordsIn" if layouts.message.kind == "request" else "RecordsOut"
    if item.is_array:
        element = layouts.class_names[kind] if item.is_struct else ELEMENT_TYPES[kind]
        plain = f"list[{element}]"
    else:
        plain = layouts.class_names[kind] if item.is_struct else PYTHON_TYPES[kind]
    return f"{plain} | None" if is_optional(item) else plain


def is_optional(item: Field) -> bool:
    return (
        bool(item.nullable) or item.default == "null" or (item.is_struct and not item.is_array and item.tag is not None)
    )


def sends_null(item: Field) -> bool:
    """A tagged struct that is null only when told so: left out, it is one with all defaults."""
    return (
        item.tag is not None and item.is_struct and not item.is_array and bool(item.nullable) and item.default is None
    )


def default_value(item: Field) -> str:
    """The default in Python, `EMPTY` for a new list, `NEW` for a new struct."""
    if item.default == "null":
        return "None"
    if item.is_array:
        return "EMPTY"
    if item.is_struct:
        return "None" if is_optional(item) else "NEW"
    if item.default is None:
        return DEFAULTS.get(item.type, "0")
    if item.type == "bool":
        return item.default.capitalize()
    return f'"{item.default}"' if item.type == "string" else item.default


def class_lines(layout: Layout, layouts: MessageLayouts) -> Iterator[str]:
    yield f"class {layout.class_name}(Message):"
    if layout.is_message:
        yield f'    """{describe(layout)}"""'
        yield ""
    yield from slots_lines(layout)
    if not layout.fields:
        return
    yield ""
    yield "    def __init__("
    yield "        self,"
    yield "        *,"
    for item in layout.fields:
        yield f"        {argument(item, layouts)},{versions_comment(item, layout)}"
    yield "    ) -> None:"
    for item in layout.fields:
        target, value = f"        self.{item.snake}: {value_type(item, layouts)} =", initial_value(item, layouts)
        yield from (
            [f"{target} {value}"]
            if len(target) + len(value) < 120
            else [f"{target} (", f"            {value}", "        )"]
        )


def describe(layout: Layout) -> str:
    message = layout.message
    flexible = message.flexible & message.versions
    return f"Versions {message.versions}, flexible {flexible}."


def slots_lines(layout: Layout) -> Iterator[str]:
    names = [f'"{item.snake}"' for item in layout.fields]
    inside = ", ".join(names) + ("," if len(names) == 1 else "")
    line = f"    FIELDS: ClassVar[tuple[str, ...]] = ({inside})"
    if len(line) <= 120:
        yield line
    else:
        yield "    FIELDS: ClassVar[tuple[str, ...]] = ("
        for name in names:
            yield f"        {name},"
        yield "    )"
    yield "    __slots__ = FIELDS"


def argument(item: Field, layouts: MessageLayouts) -> str:
    kind, default = value_type(item, layouts), default_value(item)
    if default == "NEW":
        return f"{item.snake}: {kind} | None = None"
    return f"{item.snake}: {kind} = {default}"


def initial_value(item: Field, layouts: MessageLayouts) -> str:
    default = default_value(item)
    if default == "NEW":
        return f"{layouts.class_names[item.type]}() if {item.snake} is None else {item.snake}"
    if default == "EMPTY":
        return f"[] if {item.snake} is EMPTY else {item.snake}"
    return item.snake


def versions_comment(item: Field, layout: Layout) -> str:
    inside = item.versions & layout.versions
    if inside == layout.versions:
        return ""
    if inside.high == layout.message.versions.high:
        return f"  # versions {inside.low}+"
    return f"  # versions {inside}" if inside else "  # no supported version"
