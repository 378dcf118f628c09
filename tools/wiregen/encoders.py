"""Emit the encoding functions.

A field that the version lacks is left out, whatever it holds: which version can say what is decided by whoever chooses
the version (a handler answers in the client's, a client picks one it needs).
"""

from __future__ import annotations

from collections.abc import Iterator

from wiregen.classes import default_value, is_optional, sends_null
from wiregen.decoders import FIXED_READS, function_head
from wiregen.layout import FIXED_BYTES, Layout, MessageLayouts, Segment, condition, guarded_fields, segments
from wiregen.tables import Field, Versions, snake_case


def encoder_name(layout: Layout) -> str:
    return ("encode_" if layout.is_message else "_encode_") + snake_case(layout.class_name)


def encoder_lines(layout: Layout, layouts: MessageLayouts) -> Iterator[str]:
    yield from function_head(
        encoder_name(layout), f"message: {layout.class_name}, writer: Writer, version: i64", "None"
    )
    body = list(_body_lines(layout, layouts))
    yield from body or ["    pass"]


def _body_lines(layout: Layout, layouts: MessageLayouts) -> Iterator[str]:
    for guard, items in guarded_fields(layout):
        if guard:
            yield f"    if {guard}:"
        for item, inside in items:
            yield from _field_lines(item, inside, layout, layouts, "        " if guard else "    ", "writer")
    yield from _tag_lines(layout, layouts)


def _field_lines(
    item: Field, inside: Versions, layout: Layout, layouts: MessageLayouts, indent: str, out: str
) -> Iterator[str]:
    if item.is_array:
        yield from _array_lines(item, inside, layout, layouts, indent, out)
    elif item.is_struct:
        yield from _struct_lines(item, layouts, indent, out)
    else:
        yield from _chain(segments(item, inside, layout.flexible), item, indent, out)


def _struct_lines(item: Field, layouts: MessageLayouts, indent: str, out: str) -> Iterator[str]:
    call = f"_encode_{snake_case(layouts.class_names[item.type])}(message.{item.snake}, {out}, version)"
    # Inside a tagged field the marker is a varint, 0 for null; elsewhere a byte, -1 for null (KIP-893).
    null, there = ("uvarint(0)", "uvarint(1)") if item.tag is not None else ("i8(-1)", "i8(1)")
    if item.nullable:
        if item.tag is None or sends_null(item):
            yield f"{indent}if message.{item.snake} is None:"
            yield f"{indent}    {out}.{null}"
            yield f"{indent}else:"
            indent += "    "
        yield f"{indent}{out}.{there}"
    yield f"{indent}{call}"


def _chain(parts: list[Segment], item: Field, indent: str, out: str) -> Iterator[str]:
    writes = [_write_primitive(item, part, out) for part in parts]
    yield from _if_chain([(part.versions, [write]) for part, write in zip(parts, writes, strict=True)], indent)


def _if_chain(cases: list[tuple[Versions, list[str]]], indent: str) -> Iterator[str]:
    merged: list[tuple[Versions, list[str]]] = []
    for versions, lines in cases:
        if merged and merged[-1][1] == lines:
            merged[-1] = (Versions(versions.low, merged[-1][0].high), lines)
        else:
            merged.append((versions, lines))
    if len(merged) == 1:
        yield from (indent + line for line in merged[0][1])
        return
    for index, (versions, lines) in enumerate(merged):
        last = index == len(merged) - 1
        yield f"{indent}else:" if last else f"{indent}{'elif' if index else 'if'} version >= {versions.low}:"
        yield from (f"{indent}    {line}" for line in lines)


def _write_primitive(item: Field, part: Segment, out: str) -> str:
    compact = "compact_" if part.compact else ""
    nullable = "nullable_" if part.nullable else ""
    value = f"message.{item.snake}"
    if is_optional(item) and not part.nullable and item.type != "records":
        value = f'required({value}, "{item.snake}")'
    return _write_value(item.type, value, compact, nullable, out)


def _write_value(kind: str, value: str, compact: str, nullable: str, out: str) -> str:
    if kind in FIXED_READS:
        return f"{out}.{FIXED_READS[kind]}({value})"
    if kind == "records":
        return f"{out}.{compact}records({value})"
    if kind == "bytes" and not compact and not nullable:
        return f"{out}.bytes_({value})"
    return f"{out}.{compact}{nullable}{kind}({value})"


def _array_lines(
    item: Field, inside: Versions, layout: Layout, layouts: MessageLayouts, indent: str, out: str
) -> Iterator[str]:
    parts = segments(item, inside, layout.flexible)
    name = item.snake
    yield f"{indent}{name} = message.{name}"
    if is_optional(item) and not (item.tag is not None and default_value(item) == "None"):
        yield f"{indent}if {name} is None:"
        yield from _if_chain([(part.versions, [_null_array(part, name, out)]) for part in parts], indent + "    ")
        yield f"{indent}else:"
        indent += "    "
    yield from _if_chain([(part.versions, [_array_length(part, name, out)]) for part in parts], indent)
    if item.element_type == "int32":
        yield f"{indent}{out}.i32_elements({name})"
        return
    one = f"{name}_item"
    yield f"{indent}for {one} in {name}:"
    if item.is_struct:
        yield f"{indent}    _encode_{snake_case(layouts.class_names[item.element_type])}({one}, {out}, version)"
        return
    writes = [
        (part.versions, [_write_value(item.element_type, one, "compact_" if part.compact else "", "", out)])
        for part in parts
    ]
    yield from _if_chain(writes, indent + "    ")


def _null_array(part: Segment, name: str, out: str) -> str:
    if not part.nullable:
        return f'refuse_null("{name}")'
    return f"{out}.compact_array_length(-1)" if part.compact else f"{out}.array_length(-1)"


def _array_length(part: Segment, name: str, out: str) -> str:
    return f"{out}.compact_array_length(len({name}))" if part.compact else f"{out}.array_length(len({name}))"


# Tagged fields


def _tag_lines(layout: Layout, layouts: MessageLayouts) -> Iterator[str]:
    flexible = layout.flexible & layout.versions
    if not flexible:
        return
    guard = condition(flexible, layout.versions)
    indent = "        " if guard else "    "
    if guard:
        yield f"    if {guard}:"
    tagged = sorted((item.tag, item) for item in layout.fields if item.tag is not None and item.versions & flexible)
    if not tagged:
        yield f"{indent}writer.no_tagged_fields()"
        return
    yield f"{indent}tagged: i64 = 0"
    for _, item in tagged:
        yield f"{indent}if {_present(item, flexible, layouts)}:"
        yield f"{indent}    tagged += 1"
    yield f"{indent}writer.uvarint(tagged)"
    yield f"{indent}if tagged > 0:"
    for _, item in tagged:
        yield f"{indent}    if {_present(item, flexible, layouts)}:"
        yield from _tagged_field_lines(item, item.versions & flexible, layout, layouts, indent + "        ")


def _present(item: Field, flexible: Versions, layouts: MessageLayouts) -> str:
    guard, differs = condition(item.versions & flexible, flexible), _differs_from_default(item, layouts)
    if not guard:
        return differs
    return f"{guard} and ({differs})" if " or " in differs else f"{guard} and {differs}"


def _differs_from_default(item: Field, layouts: MessageLayouts) -> str:
    value, default = f"message.{item.snake}", default_value(item)
    if sends_null(item):
        return f"{value} is None or {value} != {layouts.class_names[item.type]}()"
    if item.is_struct and not item.is_array and not item.nullable:
        return f"{value} is not None and {value} != {layouts.class_names[item.type]}()"
    if default == "None":
        return f"{value} is not None"
    if default == "EMPTY":
        return f"{value} is None or {value}" if is_optional(item) else value
    if item.type == "bool":
        return value if default == "False" else f"not {value}"
    return f"{value} != {default}"


def _tagged_field_lines(
    item: Field, inside: Versions, layout: Layout, layouts: MessageLayouts, indent: str
) -> Iterator[str]:
    if item.type in FIXED_BYTES:
        yield f"{indent}writer.uvarint({item.tag})"
        yield f"{indent}writer.uvarint({FIXED_BYTES[item.type]})"
        yield from _field_lines(item, inside, layout, layouts, indent, "writer")
        return
    yield f"{indent}body = Writer()"
    yield from _field_lines(item, inside, layout, layouts, indent, "body")
    yield f"{indent}writer.tagged_field({item.tag}, body)"
