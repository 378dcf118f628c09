"""The `sources` of a pipeline file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.model.quantities import iso_ms
from moldau.pipelines.durations import parse_ms
from moldau.pipelines.nodes import Node
from moldau.pipelines.places import Mistakes, Place, Text
from moldau.pipelines.section import VIEW_NAME, Section
from moldau.pipelines.spec import (
    METADATA,
    VALUE_FORMATS,
    FileSource,
    JdbcSource,
    Options,
    RateSource,
    Source,
    TopicSource,
)

KINDS: Final = ("topic", "topics", "pattern", "files", "jdbc", "rate")
TOPIC_KEYS: Final = (
    "topic", "topics", "pattern", "read", "latest_by", "start", "format", "schema", "schema_file", "key_format",
    "key_schema", "metadata", "watermark", "dead_letter", "on_bad_record", "max_per_batch", "bootstrap", "kafka",
    "options",
)  # fmt: skip
FILE_KEYS: Final = ("files", "format", "read", "schema", "schema_file", "watermark", "max_per_batch", "options")
JDBC_KEYS: Final = ("jdbc", "table", "query", "options")
RATE_KEYS: Final = ("rate", "watermark", "options")
PARSED: Final = ("json", "avro")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What sources and sinks take from the pipeline when they do not say otherwise."""

    base: Path
    bootstrap: str
    kafka: Options


def read_sources(nodes: dict[str, Node], defaults: Defaults, mistakes: Mistakes) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name, node in nodes.items():
        section = Section(node, f"source '{name}'", defaults.base, mistakes)
        if not VIEW_NAME.match(name):
            mistakes.add(node.place, f"'{name}' is not a name", "letters, digits, '_'; not starting with a digit")
        source = _read_source(name, section, defaults)  # also of a bad name: it may have other mistakes
        if source is not None and VIEW_NAME.match(name):
            found[name] = source
    return found


def _read_source(name: str, section: Section, defaults: Defaults) -> Source | None:
    match section.kind(KINDS):
        case "topic" | "topics" | "pattern":
            return _topic_source(name, section, defaults)
        case "files":
            return _file_source(name, section)
        case "jdbc":
            return _jdbc_source(name, section)
        case "rate":
            return _rate_source(name, section)
        case _:
            section.allow((*TOPIC_KEYS, *FILE_KEYS, *JDBC_KEYS, *RATE_KEYS))
            section.watermark()
            section.options("options")
            return None


def _topic_source(name: str, section: Section, defaults: Defaults) -> TopicSource:
    section.allow(TOPIC_KEYS)
    format_ = section.choice("format", VALUE_FORMATS, "json")
    key_format = section.choice("key_format", VALUE_FORMATS, "string")
    stream = _read_mode(section, "stream")
    source = TopicSource(
        name=name,
        place=section.place,
        topics=_topics(section),
        pattern=_pattern(section),
        topic_place=next(section.value_place(kind) for kind in KINDS if kind in section),
        stream=stream,
        latest_by=section.names("latest_by"),
        start=_start(section),
        format=format_,
        schema=_schema(section, required=format_ in PARSED),
        key_format=key_format,
        key_schema=section.text("key_schema", required=key_format in PARSED),
        metadata=_metadata(section),
        watermark=section.watermark(),
        dead_letter=section.topic("dead_letter"),
        drop_bad_records=section.choice("on_bad_record", ("fail", "drop"), "fail") == "drop",
        max_per_batch=section.integer("max_per_batch", minimum=1),
        bootstrap=section.bootstrap(defaults.bootstrap),
        kafka={**defaults.kafka, **section.client_settings("kafka")},
        options=section.options("options"),
        options_place=section.value_place("options"),
    )
    _check_topic_source(source, section)
    return source


def _check_topic_source(source: TopicSource, section: Section) -> None:
    tell = section.mistakes.add
    if source.format not in PARSED:
        if "schema" in section or "schema_file" in section:
            tell(
                section.value_place("schema"), f"format '{source.format}' has no schema", "formats with one: json, avro"
            )
        for key in ("dead_letter", "on_bad_record"):
            if key in section:
                tell(section.key_place(key), f"every record parses as '{source.format}', so '{key}' has no use")
    if source.dead_letter is not None:
        if "on_bad_record" in section:
            tell(section.key_place("on_bad_record"), "give either 'dead_letter' or 'on_bad_record'")
        if not source.stream:
            tell(
                source.dead_letter.place, "a table has no dead letters", "use 'read: stream', or 'on_bad_record: drop'"
            )
        if source.dead_letter.value in source.topics:
            tell(source.dead_letter.place, "the dead letters would go back into the topic they come from")
    if source.latest_by and source.stream:
        tell(section.key_place("latest_by"), "'latest_by' needs 'read: table'")
    if not source.stream:
        for key in ("watermark", "max_per_batch"):
            if key in section:
                tell(section.key_place(key), f"a table has no '{key}'", "use 'read: stream'")


def _topics(section: Section) -> tuple[str, ...]:
    if "topic" in section:
        topic = section.topic("topic")
        return () if topic is None else (topic.value,)
    return section.names("topics")


def _pattern(section: Section) -> str | None:
    text = section.text("pattern")
    if text is None:
        return None
    try:
        re.compile(text.value)
    except re.error as error:
        section.mistakes.add(text.place, f"the pattern is not a regular expression: {error}")
    return text.value


def _metadata(section: Section) -> tuple[str, ...]:
    if "metadata" not in section:
        return METADATA[:-1]
    node = section.node("metadata")
    if node is not None and node.value == []:
        return ()
    chosen = section.names("metadata")
    for name in chosen:
        if name not in METADATA:
            section.mistakes.add(
                section.value_place("metadata"), f"a record has no '{name}'", "known: " + ", ".join(METADATA)
            )
    return tuple(name for name in METADATA if name in chosen)


def _start(section: Section) -> Text:
    text = section.text("start")
    if text is None:
        return Text("earliest", section.place)
    if not is_start(text.value):
        section.mistakes.add(
            text.place,
            f"'{text.value}' is not a start",
            "earliest, latest, -10m, @2026-11-15T10:00, or Spark's JSON of offsets",
        )
    return text


def is_start(text: str) -> bool:
    if text in ("earliest", "latest") or text.startswith("{"):
        return True
    return (text.startswith("-") and parse_ms(text[1:]) is not None) or start_timestamp_ms(text) is not None


def start_timestamp_ms(text: str) -> int | None:
    """Milliseconds of an ISO time; without a zone it is UTC."""
    try:
        return iso_ms(text.removeprefix("@"))
    except ValueError:
        return None


def _schema(section: Section, *, required: bool) -> Text | None:
    if "schema_file" not in section:
        return section.text("schema", required=required)
    if "schema" in section:
        section.mistakes.add(section.key_place("schema_file"), "give either 'schema' or 'schema_file'")
        return section.text("schema")
    path = Path(section.path("schema_file", required=True))
    try:
        content = path.read_text()
    except OSError as error:
        section.mistakes.add(section.value_place("schema_file"), f"cannot read {path}: {error.strerror}")
        return None
    return Text(content, Place(str(path), 1), first_line=1)


def _file_source(name: str, section: Section) -> FileSource:
    section.allow(FILE_KEYS)
    stream = _read_mode(section, "table")
    if not stream and "watermark" in section:
        section.mistakes.add(section.key_place("watermark"), "a table has no watermark", "add 'read: stream'")
    if not stream and "max_per_batch" in section:
        section.mistakes.add(section.key_place("max_per_batch"), "a table has no 'max_per_batch'", "add 'read: stream'")
    format_ = section.string("format", required=True)
    return FileSource(
        name=name,
        place=section.place,
        path=section.path("files", required=True),
        format=format_,
        stream=stream,
        schema=_schema(section, required=stream and format_ != "text"),
        watermark=section.watermark(),
        max_per_batch=section.integer("max_per_batch", minimum=1),
        options=section.options("options"),
    )


def _jdbc_source(name: str, section: Section) -> JdbcSource | None:
    section.allow(JDBC_KEYS)
    url = section.text("jdbc")
    if url is not None and not url.value.startswith("jdbc:"):
        section.mistakes.add(
            url.place, f"'{url.value}' is not a JDBC address", "such as jdbc:postgresql://host/database"
        )
    if section.kind_of_two("table", "query") is None:
        return None
    return JdbcSource(
        name=name,
        place=section.place,
        url="" if url is None else url.value,
        table=section.string("table") or None,
        query=section.text("query"),
        options=section.options("options"),
    )


def _rate_source(name: str, section: Section) -> RateSource:
    section.allow(RATE_KEYS)
    return RateSource(
        name=name,
        place=section.place,
        rows_per_second=section.integer("rate", minimum=1) or 1,
        watermark=section.watermark(),
        options=section.options("options"),
    )


def _read_mode(section: Section, default: str) -> bool:
    return section.choice("read", ("stream", "table"), default) == "stream"
