"""The `sinks` of a pipeline file."""

from __future__ import annotations

from typing import Final

from moldau.pipelines.durations import HINT, parse_ms
from moldau.pipelines.nodes import Node
from moldau.pipelines.places import Mistakes, Text
from moldau.pipelines.read_sources import Defaults
from moldau.pipelines.section import FREE_NAME, Section, resolve_path
from moldau.pipelines.spec import (
    AVAILABLE_NOW,
    ConsoleTarget,
    FileTarget,
    LakeTarget,
    Sink,
    TableTarget,
    Target,
    TopicTarget,
)

FILES: Final = ("parquet", "orc", "json", "csv")
KINDS: Final = ("topic", *FILES, "delta", "iceberg", "table", "console")
COMMON: Final = ("from", "name", "mode", "trigger", "options")
LAKE: Final = ("partition_by", "merge_on", "order_by", "delete_when")
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("topic", "key", "value", "headers", "partition", "timestamp", "guarantee", "bootstrap", "kafka"),
    **{kind: (kind, "partition_by") for kind in FILES},
    "delta": ("delta", *LAKE),
    "iceberg": ("iceberg", "catalog", *(key for key in LAKE if key != "partition_by")),
    "table": ("table", "format", "partition_by"),
    "console": ("console",),
}
CATALOG_EXAMPLE: Final = 'such as {type: sql, uri: "sqlite:///lake/catalog.db", warehouse: lake}'
MODES: Final = ("append", "update", "complete")


def read_sinks(nodes: list[Node], defaults: Defaults, trigger_ms: int | None, mistakes: Mistakes) -> tuple[Sink, ...]:
    found: dict[str, Sink] = {}
    for number, node in enumerate(nodes, 1):
        sink = _read_sink(node, number, defaults, trigger_ms, mistakes)
        if sink is None:
            continue
        if sink.name in found:
            earlier = found[sink.name].place.line
            mistakes.add(
                sink.place,
                f"there are two sinks called '{sink.name}'",
                f"the first is at line {earlier}; give each a 'name'",
            )
            continue
        found[sink.name] = sink
    return tuple(found.values())


def _read_sink(
    node: Node, number: int, defaults: Defaults, trigger_ms: int | None, mistakes: Mistakes
) -> Sink | None:  # fmt: skip
    section = Section(node, f"sink {number}", defaults.base, mistakes)
    source = section.name("from", required=True)
    name = section.name("name", FREE_NAME) or source
    if name is not None:
        section.what = f"sink '{name.value}'"
    kind = section.kind(KINDS)
    section.allow((*COMMON, *(KEYS[kind] if kind is not None else (key for keys in KEYS.values() for key in keys))))
    mode = section.choice("mode", MODES, "append")
    target = None if kind is None else _target(kind, section, defaults)
    trigger = read_trigger(section, trigger_ms)
    options = section.options("options")
    if source is None or name is None or kind is None or target is None:
        return None
    sink = Sink(
        name=name.value,
        place=section.place,
        source=source,
        target=target,
        mode=mode,
        mode_place=section.value_place("mode"),
        trigger_ms=trigger,
        options=options,
    )
    _check_mode(sink, kind, mistakes)
    return sink


def read_trigger(section: Section, default: int | None) -> int | None:
    text = section.text("trigger")
    if text is None:
        return default
    if text.value == AVAILABLE_NOW:
        return None
    ms = parse_ms(text.value)
    if ms is None:
        section.mistakes.add(text.place, f"'{text.value}' is not a trigger", f"{AVAILABLE_NOW}, or {HINT}")
        return default
    return ms


def _target(kind: str, section: Section, defaults: Defaults) -> Target | None:
    match kind:
        case "topic":
            return _topic_target(section, defaults)
        case "delta" | "iceberg":
            return _lake_target(kind, section)
        case "table":
            table = section.string("table", required=True)
            return TableTarget(
                table=table, format=section.string("format") or None, partition_by=section.names("partition_by")
            )
        case "console":
            return ConsoleTarget()
        case _:
            return FileTarget(
                format=kind, path=section.path(kind, required=True), partition_by=section.names("partition_by")
            )


def _topic_target(section: Section, defaults: Defaults) -> TopicTarget | None:
    topic = section.topic("topic", required=True)
    target = {
        "key": _expression(section, "key"),
        "value": _expression(section, "value"),
        "headers": section.texts("headers"),
        "partition": section.text("partition"),
        "timestamp": section.text("timestamp"),
        "exactly_once": section.choice("guarantee", ("exactly-once", "at-least-once"), "exactly-once")
        == "exactly-once",
        "bootstrap": section.bootstrap(defaults.bootstrap),
        "kafka": {**defaults.kafka, **section.client_settings("kafka")},
    }
    return None if topic is None else TopicTarget(topic=topic, **target)  # type: ignore[arg-type]


def _expression(section: Section, key: str) -> Text | tuple[str, ...] | None:
    node = section.node(key)
    if node is not None and isinstance(node.value, list):
        return section.names(key)
    return section.text(key)


def _lake_target(kind: str, section: Section) -> LakeTarget | None:
    where = section.path("delta", required=True) if kind == "delta" else section.string("iceberg", required=True)
    if kind == "iceberg" and where and where.count(".") < 1:
        section.mistakes.add(
            section.value_place("iceberg"), f"'{where}' is not a table with its database", f"such as lake.{where}"
        )
    target = LakeTarget(
        format=kind,
        where=where,
        catalog=_catalog(section) if kind == "iceberg" else {},
        partition_by=section.names("partition_by"),
        merge_on=section.names("merge_on"),
        order_by=section.text("order_by"),
        delete_when=section.text("delete_when"),
    )
    for key in ("order_by", "delete_when"):
        if key in section and not target.merge_on:
            section.mistakes.add(section.key_place(key), f"'{key}' has a meaning only with 'merge_on'")
    return target


def _catalog(section: Section) -> dict[str, str]:
    """Properties for pyiceberg; relative places start at the file's folder, as everywhere."""
    catalog = dict(section.options("catalog"))
    if not catalog:
        section.mistakes.add(section.place, f"{section.what} needs 'catalog'", CATALOG_EXAMPLE)
    if "warehouse" in catalog:
        catalog["warehouse"] = resolve_path(section.base, catalog["warehouse"])
    prefix, found, path = catalog.get("uri", "").partition("sqlite:///")
    if found and not prefix:
        catalog["uri"] = f"sqlite:///{resolve_path(section.base, path)}"
    return catalog


def _check_mode(sink: Sink, kind: str, mistakes: Mistakes) -> None:
    allowed: tuple[str, ...] = MODES
    if kind in FILES:
        allowed = ("append",)
    elif kind == "table":
        allowed = ("append", "complete")
    elif isinstance(sink.target, LakeTarget):
        allowed = ("append", "update") if sink.target.merge_on else ("append", "complete")
    if sink.mode not in allowed:
        hint = "allowed: " + ", ".join(allowed)
        if isinstance(sink.target, LakeTarget) and sink.mode == "update":
            hint += "; 'update' needs 'merge_on'"
        mistakes.add(sink.mode_place, f"a {kind} sink cannot be written in mode '{sink.mode}'", hint)
