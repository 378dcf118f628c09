"""What the driver tells an executor about a read, and the columns that come out of it.

Everything here is small and picklable. pyspark and pyarrow are imported only by the two schema functions.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.model.failures import WorldError
from moldau.model.ids import NO_TOPIC_ID

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

BINARY: Final = "binary"
STRING: Final = "string"
JSON: Final = "json"
AVRO: Final = "avro"
FORMATS: Final = (BINARY, STRING, JSON, AVRO)

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"
ONLYMALFORMED: Final = "ONLYMALFORMED"
MODES: Final = (FAILFAST, PERMISSIVE, DROPMALFORMED, ONLYMALFORMED)

KAFKA_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's own Kafka source, in its order."""

HEADERS: Final = "headers"
DECIMAL_DIGITS_MAX: Final = 38


class ReadFailed(WorldError):
    """A range cannot be read to its end: no answer in time, a format or bytes that nobody here can read."""


class BadRecord(WorldError):
    """A key or value that does not fit its format, under FAILFAST."""

    def __init__(self, topic: str, partition: int, offset: int, what: str, reason: str) -> None:
        super().__init__(topic, partition, offset, what, reason)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"topic '{self.topic}' partition {self.partition} offset {self.offset}: the {self.what} cannot be decoded: "
            f"{self.reason}. Set {self.what}.mode to PERMISSIVE to keep such records aside or to DROPMALFORMED to "
            "leave them out"
        )


STREAM_ADVICE: Final = (
    "To go on without these records set failOnDataLoss=false; to read them all again start with a new checkpoint or "
    "startingOffsets"
)
FRAME_ADVICE: Final = (
    "A batch frame or view reads the offsets that its first action found: load() it again to read what is there now, "
    "or put moldau.spark.current.current() around it to have every query look anew. To leave out what is gone set "
    "failOnDataLoss=false"
)


class DataLost(WorldError):
    """Records that a read was to give are no longer there."""

    def __init__(
        self, topic: str, partition: int, start: int, end: int, reason: str, *, planned_once: bool = False
    ) -> None:
        """Offsets [start, end) of the partition are lost, for `reason`."""
        super().__init__(topic, partition, start, end, reason)
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.reason = reason
        self.planned_once = planned_once

    def __str__(self) -> str:
        advice = FRAME_ADVICE if self.planned_once else STREAM_ADVICE
        return f"{lost_sentence(self.topic, self.partition, self.start, self.end, self.reason)}. {advice}"


def lost_sentence(topic: str, partition: int, start: int, end: int, reason: str) -> str:
    """The fact alone: also what a read that goes on logs."""
    count = end - start
    return (
        f"topic '{topic}' partition {partition} lost offsets {start} to {end - 1} "
        f"({count} offset{'s' if count != 1 else ''}): {reason}"
    )


def topic_id_text(raw: bytes) -> str | None:
    """A topic id as Kafka prints it; None where the broker is too old to have one."""
    if raw == NO_TOPIC_ID:
        return None
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def topic_id_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition. `topic_id` (Kafka's text form) tells a re-created topic from the old."""

    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class Format:
    """How key or value is decoded."""

    name: str = BINARY
    schema: str | None = None
    """Spark DDL (or Spark's JSON of a type) for json, an Avro schema in JSON for avro."""
    mode: str = FAILFAST
    registry: str | None = None
    """Base URL of a schema registry; Avro bytes then carry a zero byte and a schema id in front."""

    @property
    def reports_errors(self) -> bool:
        """True when bad records become rows: null, with the reason and the raw bytes beside it."""
        return self.name != BINARY and self.mode in (PERMISSIVE, ONLYMALFORMED)


@dataclass(frozen=True)
class ReadSettings:
    """Everything an executor needs to know but the offset ranges."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    """The kafka.* options that are honoured, without the prefix."""
    read_committed: bool = True
    headers: bool = False
    columns: tuple[str, ...] = ()
    """The projection in output order; empty means every available column."""
    key: Format = Format()
    value: Format = Format()
    fail_on_data_loss: bool = True
    planned_once: bool = False
    """For batch frames, whose plan Spark keeps: what it names may be gone when it is read again."""

    @property
    def output_columns(self) -> tuple[str, ...]:
        return self.columns or available_columns(self)


def available_columns(settings: ReadSettings) -> tuple[str, ...]:
    """Every column a read with these settings can give, in the order of Spark's own Kafka source."""
    names = [*KAFKA_COLUMNS]
    if settings.headers:
        names.append(HEADERS)
    for name, how in (("key", settings.key), ("value", settings.value)):
        if how.reports_errors:
            names += [f"{name}Error", f"{name}Raw"]
    return tuple(names)


def spark_schema(settings: ReadSettings) -> StructType:
    """The Spark schema of a read. ValueError says what is wrong with a format's schema or a column's name."""
    from pyspark.sql.types import StructField, StructType

    kinds = _column_types(settings)
    unknown = [name for name in settings.columns if name not in kinds]
    if unknown:
        raise ValueError(f"no column '{unknown[0]}'{_missing_column_hint(unknown[0])}; there are {', '.join(kinds)}")
    return StructType([StructField(name, kinds[name]) for name in settings.output_columns])


def _missing_column_hint(name: str) -> str:
    if name == HEADERS:
        return " without includeHeaders=true"
    for side in ("key", "value"):
        if name in (f"{side}Error", f"{side}Raw"):
            return f" without a {side}.format and {side}.mode=PERMISSIVE"
    return ""


def arrow_schema(settings: ReadSettings) -> Any:
    """The pyarrow.Schema that Spark expects for `spark_schema`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark_schema(settings), timezone="UTC")


def format_type(how: Format) -> DataType:
    """The Spark type of a decoded key or value. ValueError says what is wrong with its schema."""
    from pyspark.sql.types import BinaryType, StringType

    if how.name == BINARY:
        return BinaryType()
    if how.name == STRING:
        return StringType()
    if how.name not in FORMATS:
        raise ValueError(f"'{how.name}' is not a format; there are {', '.join(FORMATS)}")
    if not how.schema:
        kind_of_schema = "Spark DDL such as id STRING, total DOUBLE" if how.name == JSON else "an Avro schema in JSON"
        raise ValueError(f"the format {how.name} needs a schema: {kind_of_schema}")
    kind = _json_type(how.schema) if how.name == JSON else _avro_type(how.schema)
    _check_holdable(kind)
    return kind


def _json_type(schema: str) -> DataType:
    from moldau.spark.formats.ddl import check_decodable, parse_ddl

    kind = parse_ddl(schema)._as_nullable()  # as from_json: what JSON lacks is null, whatever the schema says
    check_decodable(kind)
    return kind


def _avro_type(schema: str) -> DataType:
    from moldau.spark.formats.avro import spark_type_of

    return spark_type_of(schema)


def _check_holdable(kind: DataType) -> None:
    """ValueError for types that can be written down but that neither Spark nor Arrow has."""
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        names = kind.fieldNames()
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"the field '{twice[0]}' is there twice")
        for field_ in kind.fields:
            _check_holdable(field_.dataType)
    elif isinstance(kind, types.ArrayType):
        _check_holdable(kind.elementType)
    elif isinstance(kind, types.MapType):
        _check_holdable(kind.valueType)
    elif isinstance(kind, types.DecimalType) and not (
        1 <= kind.precision <= DECIMAL_DIGITS_MAX and 0 <= kind.scale <= kind.precision
    ):
        raise ValueError(
            f"there is no {kind.simpleString()}: decimals have 1 to {DECIMAL_DIGITS_MAX} digits, and no more than that "
            "after the point"
        )


def _column_types(settings: ReadSettings) -> dict[str, DataType]:
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    kinds: dict[str, DataType] = {
        "key": format_type(settings.key),
        "value": format_type(settings.value),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        HEADERS: ArrayType(header),
    }
    for name in ("key", "value"):
        kinds[f"{name}Error"] = StringType()
        kinds[f"{name}Raw"] = BinaryType()
    return {name: kinds[name] for name in available_columns(settings)}
