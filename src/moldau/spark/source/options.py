"""The options of `spark.read.format("moldau")` and `spark.readStream.format("moldau")`. Pure.

Names, meaning and precedence are those of Spark's own Kafka source, plus a few more. Every mistake is found at once and
told with what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from moldau.spark.option_names import judge_source
from moldau.spark.option_reader import OptionReader, OptionsWrong
from moldau.spark.option_values import (
    INT_MAX,
    parse_boolean,
    parse_count,
    parse_delay_ms,
    parse_names,
    parse_positive,
    parse_word,
)
from moldau.spark.source.positions import (
    EARLIEST,
    LATEST,
    Anchor,
    Limit,
    parse_offsets_option,
    parse_time_option,
    parse_times_option,
)
from moldau.spark.source.subscription import SUBSCRIPTIONS, Subscription, group_name
from moldau.spark.types import AVRO, BINARY, FAILFAST, FORMATS, JSON, MODES, STRING, Format, ReadSettings

STRATEGY: Final = "startingOffsetsByTimestampStrategy"
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "nearRecordsMax")
BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
NEAR_RECORDS_MAX: Final = 2_000

_REFUSED_CLIENT: Final = {
    "auto.offset.reset": "set startingOffsets to earliest or latest instead",
    "key.deserializer": "set key.format to string, json or avro instead",
    "value.deserializer": "set value.format to string, json or avro instead",
    "enable.auto.commit": "progress is committed to the group after each batch; commitOffsets=false turns that off",
    "interceptor.classes": "there is nothing to intercept; transform the DataFrame instead",
}
_CLIENT_NUMBERS: Final = (
    "request.timeout.ms",
    "default.api.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
)


@dataclass(frozen=True)
class SourceOptions:
    """A read as the user described it."""

    bootstrap: str
    subscription: Subscription
    starting: Limit
    ending: Limit
    client: Mapping[str, str] = field(default_factory=dict)
    """kafka.* without the prefix."""
    read_committed: bool = True
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    near_records_max: int = NEAR_RECORDS_MAX
    """Micro-batches of at most so many records are read by the planning process, not by tasks; 0: none."""
    include_headers: bool = False
    group: str = ""
    """Where progress is committed; empty means nowhere."""
    columns: tuple[str, ...] = ()
    key: Format = field(default_factory=Format)
    value: Format = field(default_factory=Format)

    def read_settings(self, *, planned_once: bool = False) -> ReadSettings:
        """What executors need to know."""
        return ReadSettings(
            bootstrap=self.bootstrap,
            client=dict(self.client),
            read_committed=self.read_committed,
            headers=self.include_headers,
            columns=self.columns,
            key=self.key,
            value=self.value,
            fail_on_data_loss=self.fail_on_data_loss,
            planned_once=planned_once,
        )


def parse(options: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """Read the options of a batch (streaming=False) or a stream; None, at load time, leaves the kind open.

    `OptionsWrong` tells every mistake.
    """
    return _Parser(options, streaming).parse()


class _Parser(OptionReader):
    def __init__(self, options: Mapping[str, str], streaming: bool | None) -> None:
        super().__init__(options)
        self.streaming = streaming

    def parse(self) -> SourceOptions:
        if not self.options or _of_sql_table(self.options):
            raise OptionsWrong([NO_OPTIONS])
        self._check_names()
        client = self._client()
        subscription = self._subscription()
        include_headers = self.boolean("includeHeaders", False)
        first = Anchor.LATEST if self.streaming else Anchor.EARLIEST
        strategy = self.take(STRATEGY, lambda text: parse_word(text, ("error", "latest")))
        found = SourceOptions(
            bootstrap=self.bootstrap(client),
            subscription=subscription,
            starting=self._limit("starting", first, latest_if_none=strategy == "latest"),
            ending=self._limit("ending", Anchor.LATEST, latest_if_none=True),
            client=client,
            read_committed=self._read_committed(client),
            fail_on_data_loss=self.boolean("failOnDataLoss", True),
            max_offsets_per_trigger=self._positive("maxOffsetsPerTrigger"),
            min_offsets_per_trigger=self._positive("minOffsetsPerTrigger"),
            max_trigger_delay_ms=self._delay_ms("maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
            min_partitions=self._positive("minPartitions"),
            max_records_per_partition=self._positive("maxRecordsPerPartition"),
            near_records_max=self._count("nearRecordsMax", NEAR_RECORDS_MAX),
            include_headers=include_headers,
            group=self._group(client, subscription),
            columns=self._columns(),
            key=self._format("key"),
            value=self._format("value"),
        )
        self._check_together(found)
        self._check_formats(found)
        if self.mistakes:
            raise OptionsWrong(self.mistakes)
        return found

    # -- single options --------------------------------------------------------------------------------------------

    def _positive(self, name: str) -> int | None:
        return self.take(name, parse_positive)

    def _count(self, name: str, default: int) -> int:
        value = self.take(name, parse_count)
        return default if value is None else value

    def _delay_ms(self, name: str, default: int) -> int:
        value = self.take(name, parse_delay_ms)
        return default if value is None else value

    def _columns(self) -> tuple[str, ...]:
        return self.take("columns", parse_names) or ()

    def _format(self, name: str) -> Format:
        chosen = self.take(f"{name}.format", lambda text: parse_word(text, FORMATS)) or BINARY
        mode = self.take(f"{name}.mode", lambda text: parse_word(text, MODES)) or FAILFAST
        return Format(chosen, self.options.get(f"{name}.schema"), mode, self.options.get(f"{name}.registry"))

    def _limit(self, end: str, default: Anchor, *, latest_if_none: bool) -> Limit:
        """Spark's precedence: a timestamp for all, then timestamps by partition, then offsets."""
        for name, read in (
            (f"{end}Timestamp", lambda text: parse_time_option(text, latest_if_none=latest_if_none)),
            (f"{end}OffsetsByTimestamp", lambda text: parse_times_option(text, latest_if_none=latest_if_none)),
            (f"{end}Offsets", parse_offsets_option),
        ):
            if name.lower() in self.options:
                return replace(self.take(name, read) or Limit(default), option=name)
        return Limit(default)

    # -- where and what ----------------------------------------------------------------------------------------------

    def _client(self) -> dict[str, str]:
        client = self.client(_REFUSED_CLIENT)
        for name in _CLIENT_NUMBERS:
            self.take(f"kafka.{name}", lambda text: parse_positive(text, INT_MAX))
        self.take("kafka.check.crcs", parse_boolean)
        return client

    def _subscription(self) -> Subscription:
        given = [name for name in SUBSCRIPTIONS if name.lower() in self.options]
        if len(given) != 1:
            problem = f"{' and '.join(given)} exclude each other" if given else "nothing says which topics to read"
            self.mistakes.append(
                f"{problem}: set exactly one of subscribe (orders,views), subscribePattern (orders-.*) and "
                'assign ({"orders":[0,1]})' + self._misplaced()
            )
            return Subscription()
        return self.take(given[0], SUBSCRIPTIONS[given[0]]) or Subscription()

    def _misplaced(self) -> str:
        """Where somebody may have put the name of the topic instead."""
        given = [name for name in ("topic", "topics", "path") if name in self.options]
        return f"; option {given[0]} does not do it" if given else ""

    def _read_committed(self, client: Mapping[str, str]) -> bool:
        levels = ("read_committed", "read_uncommitted")
        level = self.take("kafka.isolation.level", lambda text: parse_word(text, levels))
        return (level or levels[0]) == "read_committed"

    def _group(self, client: Mapping[str, str], subscription: Subscription) -> str:
        if not self.boolean("commitOffsets", True):
            return ""
        return client.get("group.id") or group_name(self.options.get("groupidprefix", "spark"), subscription)

    # -- all of them together --------------------------------------------------------------------------------------

    def _check_names(self) -> None:
        self.mistakes += judge_source(self.options).mistakes

    def _check_together(self, found: SourceOptions) -> None:
        least, most = found.min_offsets_per_trigger, found.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            self.mistakes.append(f"minOffsetsPerTrigger ({least}) is larger than maxOffsetsPerTrigger ({most})")
        if self.streaming:
            self.mistakes += [
                f"option {name} has no place in a streaming query: it reads on without end"
                for name in BATCH_ONLY
                if name.lower() in self.options
            ]
        elif self.streaming is False or any(name.lower() in self.options for name in BATCH_ONLY):
            # A stream with an end is refused anyhow, so these are mistakes whatever it turns out to be.
            self.mistakes += batch_mistakes(found.starting, found.ending)

    def _check_formats(self, found: SourceOptions) -> None:
        """Each schema by itself, so that the mistake names its option; then the columns, which need both."""
        from moldau.spark.types import format_type, spark_schema

        before = len(self.mistakes)
        for side, how in (("key", found.key), ("value", found.value)):
            self._check_needless(side, how)
            try:
                format_type(how)
            except ValueError as mistake:
                self.mistakes.append(f"option {side}.schema: {mistake}")
        if len(self.mistakes) == before:
            try:
                spark_schema(found.read_settings())
            except ValueError as mistake:
                self.mistakes.append(f"option columns: {mistake}")

    def _check_needless(self, side: str, how: Format) -> None:
        """What has no meaning with the format is most likely the sign of a forgotten one."""
        chosen = f"{side}.format={how.name}"
        for name, formats in (("schema", (JSON, AVRO)), ("mode", (STRING, JSON, AVRO)), ("registry", (AVRO,))):
            if f"{side}.{name}" in self.options and how.name not in formats:
                instead = f"set {side}.format to {' or '.join(formats)}, or leave it out"
                self.mistakes.append(f"option {side}.{name} has no meaning with {chosen}: {instead}")
        if how.registry is not None and urlsplit(how.registry).scheme not in ("http", "https"):
            self.mistakes.append(f"option {side}.registry: '{how.registry}' is not a URL such as http://localhost:8081")


NO_OPTIONS: Final = (
    "Spark hands over no options when it reads a table made with CREATE TABLE ... USING moldau: use "
    "CREATE TEMPORARY VIEW ... USING moldau OPTIONS (...) instead; in Python at least kafka.bootstrap.servers and "
    "subscribe are needed"
)


def _of_sql_table(options: Mapping[str, str]) -> bool:
    """Whether CREATE TABLE asks for the schema: it still has the options, beside properties of the table."""
    return "provider" in options and any(name.startswith("option.") for name in options)


def batch_mistakes(starting: Limit, ending: Limit) -> list[str]:
    """What Spark's Kafka source refuses in batch queries, because nothing could ever come out."""
    found = []
    if starting.anchor is Anchor.LATEST and starting.shift == 0:
        found.append("startingOffsets can't be latest in a batch query: there would be nothing to read")
    if ending.anchor is Anchor.EARLIEST and ending.shift == 0:
        found.append("endingOffsets can't be earliest in a batch query: there would be nothing to read")
    if starting.anchor is Anchor.OFFSETS:
        found += [
            f"startingOffsets of {partition} can't be latest (-1) in a batch query"
            for partition, offset in starting.partitions.items()
            if offset == LATEST
        ]
    if ending.anchor is Anchor.OFFSETS:
        found += [
            f"endingOffsets of {partition} can't be earliest (-2) in a batch query"
            for partition, offset in ending.partitions.items()
            if offset == EARLIEST
        ]
    return found + _crossed(starting, ending)


def _crossed(starting: Limit, ending: Limit) -> list[str]:
    """Where it is plain before anybody asks the cluster that the end comes before the start."""
    if starting.anchor is not ending.anchor:
        return []
    if starting.anchor not in (Anchor.OFFSETS, Anchor.TIMES):
        # Of times back from now the larger is the earlier one.
        sign = -1 if starting.anchor is Anchor.AGO else 1
        first, last = ((limit.shift, limit.timestamp_ms * sign) for limit in (starting, ending))
        return [f"{starting.option} is after {ending.option}: there would be nothing to read"] if first > last else []
    what = "offset" if starting.anchor is Anchor.OFFSETS else "timestamp"
    if set(starting.partitions) != set(ending.partitions):
        odd = sorted(set(starting.partitions) ^ set(ending.partitions))
        return [f"starting and ending {what}s must name the same partitions; {odd[0]} is in only one of them"]
    return [
        f"the starting {what} of {partition} ({start}) is after its ending {what} ({ending.partitions[partition]})"
        for partition, start in starting.partitions.items()
        if start > ending.partitions[partition] >= 0
    ]


def ignored_in_batch(options: Mapping[str, Any]) -> list[str]:
    """Options that have no meaning in a batch query; as in Spark that is worth a warning, not an error."""
    given = {name.lower() for name in options}
    return [name for name in STREAM_ONLY if name.lower() in given]
