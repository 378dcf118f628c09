"""Emit the decoding functions."""

from __future__ import annotations

from collections.abc import Iterator

from wiregen.classes import is_optional, sends_null, value_type
from wiregen.layout import Layout, MessageLayouts, Segment, condition, guarded_fields, segments
from wiregen.tables import Field, Versions, snake_case

FIXED_READS = {
    "bool": "boolean", "int8": "i8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64",
    "float64": "f64", "uuid": "uuid",
}  # fmt: skip


def decoder_name(layout: Layout) -> str:
    return ("decode_" if layout.is_message else "_decode_") + snake_case(layout.class_name)


def function_head(name: str, arguments: str, result: str) -> list[str]:
    """The first line of a function, wrapped as the formatter would when it is too long."""
    line = f"def {name}({arguments}) -> {result}:"
    if len(line) <= 120:
        return [line]
    return [f"def {name}(", f"    {arguments}", f") -> {result}:"]


def decoder_lines(layout: Layout, layouts: MessageLayouts) -> Iterator[str]:
    yield from function_head(decoder_name(layout), "reader: Reader, version: i64", layout.class_name)
    yield f"    message = {layout.class_name}()"
    for guard, items in guarded_fields(layout):
        if guard:
            yield f"    if {guard}:"
        for item, inside in items:
            yield from _field_lines(item, inside, layout, layouts, "        " if guard else "    ")
    yield from _tag_lines(layout, layouts)
    yield "    return message"


def _field_lines(item: Field, inside: Versions, layout: Layout, layouts: MessageLayouts, indent: str) -> Iterator[str]:
    target = f"message.{item.snake}"
    if item.is_array:
        yield from _array_lines(item, inside, layout, layouts, indent)
    elif item.is_struct:
        call = f"_decode_{snake_case(layouts.class_names[item.type])}(reader, version)"
        if (item.nullable & inside) and not item.nullable.covers(inside):
            raise ValueError(f"{layout.class_name}.{item.name}: a struct nullable in some versions only")
        marker = "reader.i8() >= 0" if item.tag is None else "reader.uvarint() > 0"
        value = f"{call} if {marker} else None" if item.nullable else call
        line = f"{indent}{target} = {value}"
        yield from [line] if len(line) <= 120 else [f"{indent}{target} = (", f"{indent}    {value}", f"{indent})"]
    else:
        yield from _chain(target, inside, segments(item, inside, layout.flexible), indent, item, layouts)


def _chain(
    target: str, inside: Versions, parts: list[Segment], indent: str, item: Field, layouts: MessageLayouts
) -> Iterator[str]:
    """Assign what the segment of the version says: plainly, with a conditional expression, or with if and elif."""
    reads = [_read(item, part, layouts) for part in parts]
    merged: list[tuple[Versions, str]] = []
    for part, read in zip(parts, reads, strict=True):
        if merged and merged[-1][1] == read:
            merged[-1] = (Versions(part.versions.low, merged[-1][0].high), read)
        else:
            merged.append((part.versions, read))
    if len(merged) == 1:
        yield f"{indent}{target} = {merged[0][1]}"
        return
    one_line = f"{indent}{target} = {merged[0][1]} if version >= {merged[0][0].low} else {merged[1][1]}"
    if len(merged) == 2 and len(one_line) <= 120:
        yield one_line
        return
    for index, (versions, read) in enumerate(merged):
        last = index == len(merged) - 1
        yield f"{indent}else:" if last else f"{indent}{'elif' if index else 'if'} version >= {versions.low}:"
        yield f"{indent}    {target} = {read}"


def _read(item: Field, part: Segment, layouts: MessageLayouts) -> str:
    compact = "compact_" if part.compact else ""
    nullable = "nullable_" if part.nullable else ""
    if item.is_array:
        return f"reader.{compact}{nullable}array_length({layouts.minimum_bytes(item, part)})"
    return _read_primitive(item.type, compact, nullable)


def _read_primitive(kind: str, compact: str, nullable: str) -> str:
    if kind in FIXED_READS:
        return f"reader.{FIXED_READS[kind]}()"
    if kind == "records":
        return f"reader.{compact}records()"
    if kind == "bytes" and not compact and not nullable:
        return "reader.bytes_()"
    return f"reader.{compact}{nullable}{kind}()"


def _array_lines(item: Field, inside: Versions, layout: Layout, layouts: MessageLayouts, indent: str) -> Iterator[str]:
    parts = segments(item, inside, layout.flexible)
    yield from _chain("count", inside, parts, indent, item, layouts)
    name = item.snake
    if is_optional(item):
        yield f"{indent}if count < 0:"
        yield f"{indent}    message.{name} = None"
        yield f"{indent}else:"
        indent += "    "
        yield f"{indent}{name}: {value_type(item, layouts).removesuffix(' | None')} = []"
    else:
        yield f"{indent}{name} = message.{name}"
    yield f"{indent}for _ in range(count):"
    yield f"{indent}    {name}.append({_read_element(item, parts, layouts)})"
    if is_optional(item):
        yield f"{indent}message.{name} = {name}"


def _read_element(item: Field, parts: list[Segment], layouts: MessageLayouts) -> str:
    if item.is_struct:
        return f"_decode_{snake_case(layouts.class_names[item.element_type])}(reader, version)"
    compact = [part for part in parts if part.compact]
    plain = [part for part in parts if not part.compact]
    in_compact, in_plain = (_read_primitive(item.element_type, word, "") for word in ("compact_", ""))
    if not plain or in_compact == in_plain:
        return in_compact
    if not compact:
        return in_plain
    return f"{in_compact} if version >= {min(part.versions.low for part in compact)} else {in_plain}"


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
        yield f"{indent}reader.skip_tagged_fields()"
        return
    for _, item in tagged:
        if sends_null(item):
            yield f"{indent}message.{item.snake} = {layouts.class_names[item.type]}()"
    yield f"{indent}for _ in range(reader.tagged_field_count()):"
    yield f"{indent}    tag = reader.uvarint()"
    yield f"{indent}    end = reader.tagged_field_end()"
    for index, (tag, item) in enumerate(tagged):
        inside = item.versions & flexible
        needed = condition(inside, flexible)
        yield f"{indent}    {'elif' if index else 'if'} tag == {tag}{' and ' + needed if needed else ''}:"
        if item.is_array and not is_optional(item):
            yield f"{indent}        message.{item.snake} = []"
        yield from _field_lines(item, inside, layout, layouts, indent + "        ")
    yield f"{indent}    else:"
    yield f"{indent}        reader.skip(end - reader.position)"
    yield f"{indent}    reader.finish_tagged_field(end)"
