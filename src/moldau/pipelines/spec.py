"""What a pipeline file says, as plain typed values. Nothing here knows YAML, Spark or a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.places import Place, Text

Options = Mapping[str, str]
METADATA: Final = ("key", "topic", "partition", "offset", "timestamp", "headers")
VALUE_FORMATS: Final = ("json", "avro", "string", "binary")
AVAILABLE_NOW: Final = "available-now"


@dataclass(frozen=True, slots=True)
class Watermark:
    column: str
    delay_ms: int
    place: Place


@dataclass(frozen=True, slots=True)
class PythonReference:
    """`file.py:name`, or the object itself when the pipeline is a Python file."""

    place: Place
    file: Path | None
    name: str
    given: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return f"{self.file.name}:{self.name}" if self.file is not None else self.name


# -- sources ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    name: str
    place: Place
    topics: tuple[str, ...]
    pattern: str | None
    topic_place: Place
    stream: bool = True
    latest_by: tuple[str, ...] = ()
    start: Text
    format: str = "json"
    schema: Text | None = None
    key_format: str = "string"
    key_schema: Text | None = None
    metadata: tuple[str, ...] = METADATA[:-1]
    watermark: Watermark | None = None
    dead_letter: Text | None = None
    drop_bad_records: bool = False
    max_per_batch: int | None = None
    bootstrap: str
    kafka: Options = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    options_place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    name: str
    place: Place
    path: str
    format: str
    stream: bool = False
    schema: Text | None = None
    watermark: Watermark | None = None
    max_per_batch: int | None = None
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSource:
    name: str
    place: Place
    url: str
    table: str | None
    query: Text | None
    options: Options = field(default_factory=dict)
    stream: bool = False
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSource:
    name: str
    place: Place
    rows_per_second: int
    watermark: Watermark | None = None
    options: Options = field(default_factory=dict)
    stream: bool = True


Source = TopicSource | FileSource | JdbcSource | RateSource

# -- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    name: str
    place: Place
    sql: Text
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep:
    name: str
    place: Place
    function: PythonReference
    arguments: Mapping[str, Any] = field(default_factory=dict)
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulStep:
    name: str
    place: Place
    processor: PythonReference
    source: Text
    """The name of what it reads."""
    by: tuple[str, ...]
    output: Text
    time: str = "none"
    mode: str = "append"
    pandas: bool = False
    event_time_column: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    watermark: Watermark | None = None


Step = SqlStep | PythonStep | StatefulStep

# -- sinks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget:
    topic: Text
    key: Text | tuple[str, ...] | None = None
    value: Text | tuple[str, ...] | None = None
    headers: Mapping[str, Text] = field(default_factory=dict)
    partition: Text | None = None
    timestamp: Text | None = None
    exactly_once: bool = True
    bootstrap: str
    kafka: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    format: str
    path: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTarget:
    format: str
    """`delta` or `iceberg`."""
    where: str
    """A path, or a table's name with its database."""
    catalog: Options = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    merge_on: tuple[str, ...] = ()
    order_by: Text | None = None
    delete_when: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    table: str
    format: str | None = None
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsoleTarget:
    pass


Target = TopicTarget | FileTarget | LakeTarget | TableTarget | ConsoleTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    name: str
    place: Place
    source: Text
    """The name of what it writes."""
    target: Target
    mode: str = "append"
    mode_place: Place
    trigger_ms: int | None = None
    """None: available now."""
    options: Options = field(default_factory=dict)


# -- the whole -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Restart:
    policy: str = "on-failure"
    failures_max: int = 5
    within_ms: int = 600_000
    backoff_ms: int = 1_000
    backoff_max_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    name: str
    file: Path
    place: Place
    bootstrap: str
    kafka: Options = field(default_factory=dict)
    engine: str = "streaming"
    trigger_ms: int | None = 1_000
    trigger_place: Place
    checkpoint: str
    checkpoint_place: Place
    restart: Restart = Restart()
    spark: Options = field(default_factory=dict)
    sources: Mapping[str, Source]
    steps: Mapping[str, Step]
    sinks: tuple[Sink, ...]

    @property
    def dead_letters(self) -> Iterator[TopicSource]:
        """The sources whose bad records go to a topic."""
        for source in self.sources.values():
            if isinstance(source, TopicSource) and source.dead_letter is not None:
                yield source

    def named(self, name: str) -> Source | Step | None:
        return self.sources.get(name) or self.steps.get(name)
