"""The options and the columns of `df.write.format("moldau")` and `df.writeStream.format("moldau")`. Pure.

Columns and options are those of Spark's own Kafka sink, plus a few more. Every mistake is found before anything is
written, and told with what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.config.mistakes import nearest
from moldau.model.ids import topic_name_problem
from moldau.records.compression import CODEC_NAMES
from moldau.spark.option_names import judge_sink
from moldau.spark.option_reader import OptionReader, OptionsWrong
from moldau.spark.option_values import parse_positive, parse_word

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

T = TypeVar("T")

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
GUARANTEES: Final = (EXACTLY_ONCE, AT_LEAST_ONCE)

REFUSED: Final = {
    "transactional.id": "the sink makes its own, one for each task; name the sink with the option sinkId",
    "key.serializer": "cast the column to string or binary instead",
    "value.serializer": "cast the column to string or binary, or set value.format=json",
    "partitioner.class": "give the partition in a column `partition` instead",
    "interceptor.classes": "there is nothing to intercept; transform the DataFrame instead",
}

FACTS: Final = ("key", "topic", "partition", "headers", "timestamp")
"""Columns that say something about a record rather than being its value."""

BATCH_BYTES: Final = 512 * 1024
BUFFER_BYTES: Final = 64 * 1024 * 1024
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024

_HEADER_PARTS: Final = (
    [("key", "string"), ("value", "binary")],
    [("key", "string"), ("value", "string")],
)
_TEXT: Final = frozenset({"string", "binary", "varchar", "char"})
_WHOLE: Final = frozenset({"byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint"})
_INT: Final = frozenset({"byte", "tinyint", "short", "smallint", "integer", "int"})
_TIME: Final = frozenset({"timestamp", "long", "bigint"})


@dataclass(frozen=True)
class SinkOptions:
    """A write as the user described it. Picklable."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    """kafka.* without the prefix."""
    topic: str | None = None
    codec: int = 0
    level: int | None = None
    batch_bytes: int = BATCH_BYTES
    buffer_bytes: int = BUFFER_BYTES
    transaction_timeout_ms: int | None = None
    exactly_once: bool = True
    sink_id: str | None = None
    txn_version: int | None = None
    """With it a batch write is decided like the micro-batch of that number."""
    key_column: str | None = None
    json: bool = False
    ignore_null_fields: bool = True


@dataclass(frozen=True)
class RecordPlan:
    """Which column is what; None means there is none. Exactly one of `value` and `fields` is set."""

    value: str | None = None
    fields: tuple[str, ...] = ()
    """The columns that become the JSON object of the value."""
    key: str | None = None
    topic: str | None = None
    partition: str | None = None
    headers: str | None = None
    timestamp: str | None = None


def parse(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """`OptionsWrong` tells every mistake."""
    return _Parser(options, streaming).parse()


def plan_columns(options: SinkOptions, schema: StructType) -> RecordPlan:
    """Match the columns with what a record needs. `OptionsWrong` tells every mistake."""
    return _Columns(options, schema).plan()


class _Parser(OptionReader):
    def __init__(self, options: Mapping[str, str], streaming: bool) -> None:
        super().__init__(options)
        self.streaming = streaming

    def parse(self) -> SinkOptions:
        self._check_names()
        client = self.client(REFUSED)
        exactly_once = self.take("deliveryGuarantee", lambda text: parse_word(text, GUARANTEES)) != AT_LEAST_ONCE
        self._check_client(client)
        codec = self.take("kafka.compression.type", lambda text: parse_word(text, CODEC_NAMES)) or CODEC_NAMES[0]
        sink_id, txn_version = self._identity(exactly_once)
        found = SinkOptions(
            bootstrap=self.bootstrap(client),
            client=client,
            topic=self._topic(),
            codec=CODEC_NAMES.index(codec),
            level=self.take(f"kafka.compression.{codec}.level", int),
            batch_bytes=self.take("kafka.batch.size", parse_batch_bytes) or BATCH_BYTES,
            buffer_bytes=self.take("kafka.buffer.memory", parse_positive) or BUFFER_BYTES,
            transaction_timeout_ms=self.take("kafka.transaction.timeout.ms", parse_positive),
            exactly_once=exactly_once,
            sink_id=sink_id,
            txn_version=txn_version,
            key_column=self.options.get("key.column"),
            json=self.take("value.format", lambda text: parse_word(text, ("json", "binary", "string"))) == "json",
            ignore_null_fields=self.boolean("ignoreNullFields", True),
        )
        if self.mistakes:
            raise OptionsWrong(self.mistakes)
        return found

    def _topic(self) -> str | None:
        topic = self.options.get("topic")
        problem = None if topic is None else topic_name_problem(topic)
        if problem is not None:
            self.mistakes.append(f"option topic: '{topic}' is not a topic name: {problem}")
        return topic

    def _identity(self, exactly_once: bool) -> tuple[str | None, int | None]:
        """Who writes, as far as the user says it."""
        app, version = self.options.get("txnappid"), self.take("txnVersion", parse_version)
        sink = self.options.get("sinkid")
        if self.streaming:
            for name in ("txnAppId", "txnVersion"):
                if name.lower() in self.options:
                    self.mistakes.append(f"option {name} is for batch writes: a streaming query numbers its batches")
        elif ("txnappid" in self.options) != ("txnversion" in self.options):
            self.mistakes.append("options txnAppId and txnVersion belong together: who writes, and which write it is")
        elif sink is not None and app is None:
            self.mistakes.append("option sinkId is for streaming queries; a batch write takes txnAppId and txnVersion")
        if app is not None and not exactly_once:
            self.mistakes.append("txnAppId needs transactions: leave out deliveryGuarantee=at-least-once")
        for name, word in (("sinkId", sink), ("txnAppId", app)):
            problem = None if word is None else identity_problem(word)
            if problem is not None:
                self.mistakes.append(f"option {name}: '{word}' {problem}")
        return (sink if self.streaming else app), version

    def _check_client(self, client: Mapping[str, str]) -> None:
        if client.get("acks", "all") not in ("all", "-1"):
            self.mistakes.append("option kafka.acks: only all is offered; fewer may lose what was reported as written")
        if client.get("enable.idempotence", "true").lower() != "true":
            self.mistakes.append("option kafka.enable.idempotence: writing is always idempotent; leave it out")
        for name in ("request.timeout.ms", "default.api.timeout.ms", "delivery.timeout.ms"):
            self.take(f"kafka.{name}", parse_positive)

    def _check_names(self) -> None:
        self.mistakes += judge_sink(self.options).mistakes


class _Columns:
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.types: dict[str, DataType] = {one.name: one.dataType for one in schema.fields}
        self.mistakes: list[str] = []

    def plan(self) -> RecordPlan:
        value, fields = self._value()
        found = RecordPlan(
            value=value,
            fields=fields,
            key=self._key(),
            topic=self._topic(),
            partition=self._optional("partition", _INT, "int"),
            headers=self._headers(),
            timestamp=self._optional("timestamp", _TIME, "timestamp, or long (milliseconds since 1970)"),
        )
        if self.mistakes:
            raise OptionsWrong(self.mistakes)
        return found

    def _value(self) -> tuple[str | None, tuple[str, ...]]:
        if self.options.json:
            return self._json_value()
        if "value" not in self.types:
            self.mistakes.append(self._missing("value"))
        elif type_name(self.types["value"]) not in _TEXT:
            written = self.types["value"].simpleString()
            self.mistakes.append(
                f"column value is {written}, and must be string or binary: cast it, or set value.format=json"
            )
        return "value", ()

    def _json_value(self) -> tuple[str | None, tuple[str, ...]]:
        """A struct named `value` alone is the object itself; else all columns that are not facts are its fields."""
        rest = tuple(name for name in self.types if name not in FACTS)
        if not rest:
            facts = ", ".join(FACTS)
            self.mistakes.append(f"value.format=json needs columns to write other than {facts}; there are none")
        if rest == ("value",) and type_name(self.types["value"]) == "struct":
            return "value", ()
        return None, rest

    def _key(self) -> str | None:
        chosen = self.options.key_column
        if chosen is None:
            return self._optional("key", _TEXT, "string or binary")
        if chosen not in self.types:
            near = self._nearest(chosen)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(self.types)}"
            self.mistakes.append(f"option key.column: there is no column '{chosen}': {hint}")
        elif type_name(self.types[chosen]) not in _TEXT | _WHOLE:
            written = self.types[chosen].simpleString()
            self.mistakes.append(
                f"option key.column: '{chosen}' is {written}; a key is a string, binary or whole number"
            )
        return chosen

    def _topic(self) -> str | None:
        if self.options.topic is not None:
            return None
        if "topic" not in self.types:
            self.mistakes.append("nothing says which topic to write to: set the option topic or give a column topic")
            return None
        return self._optional("topic", frozenset({"string", "varchar", "char"}), "string")

    def _headers(self) -> str | None:
        if "headers" not in self.types:
            return None
        kind: Any = self.types["headers"]
        entry = getattr(kind, "elementType", None)
        parts = [(one.name, type_name(one.dataType)) for one in getattr(entry, "fields", [])]
        if parts not in _HEADER_PARTS:
            self.mistakes.append(
                f"column headers is {kind.simpleString()}, and must be array<struct<key: string, value: binary>>"
            )
        return "headers"

    def _optional(self, name: str, kinds: frozenset[str], expected: str) -> str | None:
        if name not in self.types:
            return None
        if type_name(self.types[name]) not in kinds:
            self.mistakes.append(f"column {name} is {self.types[name].simpleString()}, and must be {expected}")
        return name

    def _missing(self, name: str) -> str:
        near = self._nearest(name)
        if near is not None:
            hint = f"did you mean the column {near}? Rename it to {name}"
        else:
            hint = "rename one, or set value.format=json to write all columns as a JSON object"
        return f"there is no column {name} (the columns are {', '.join(self.types)}): {hint}"

    def _nearest(self, name: str) -> str | None:
        """A column by almost that name, as it is written there."""
        by_lower = {column.lower(): column for column in self.types}
        near = nearest(name.lower(), by_lower, cutoff=0.6)
        return None if near is None else by_lower[near]


def type_name(kind: DataType) -> str:
    """`string` also for strings with a collation or a length."""
    name: str = kind.typeName()
    return name.partition("(")[0].partition(" ")[0]


def parse_batch_bytes(text: str) -> int:
    size = parse_positive(text)
    if size > BATCH_BYTES_MAX:
        raise ValueError(f"{size} bytes are more than {BATCH_BYTES_MAX}, the most a batch may have")
    return size


def parse_version(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def identity_problem(word: str) -> str | None:
    """Identities become part of transactional ids, whose parts are separated by colons."""
    if not word or len(word) > 200:
        return "must have 1 to 200 characters"
    if ":" in word or not word.isprintable():
        return "must not contain colons or control characters"
    return None
