"""The options of format `moldau` that a topic source or sink of a pipeline stands for. Pure."""

from __future__ import annotations

from moldau.pipelines.durations import parse_ms
from moldau.pipelines.read_sources import PARSED, start_timestamp_ms
from moldau.pipelines.spec import TopicSource, TopicTarget
from moldau.spark.current import always_true

FAIL, DROP, REPORT, ONLY_BAD = "FAILFAST", "DROPMALFORMED", "PERMISSIVE", "ONLYMALFORMED"


def reading(source: TopicSource, group: str, *, stream: bool) -> dict[str, str]:
    """Options for the records that parse."""
    bad = DROP if source.dead_letter is not None or source.drop_bad_records else FAIL
    return {
        **_common(source, group, stream=stream),
        **_starting(source, stream=stream),
        **_format("value", source, bad),
        # A key that nobody asked to be parsed must not fail the pipeline: what is no text becomes null.
        **_format("key", source, bad if source.key_format in PARSED else REPORT),
        "columns": ",".join(columns(source) if stream else _columns_of_table(source)),
        **_limit(source, stream),
        **source.options,
    }


def reading_bad(source: TopicSource, group: str) -> dict[str, str]:
    """Options for the records that do not parse, with all that a dead letter tells."""
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "headers", "valueError", "valueRaw"]
    if source.key_format in PARSED:
        names += ["keyError", "keyRaw"]
    return {
        **_common(source, group, stream=True),
        **_starting(source, stream=True),
        **_format("value", source, ONLY_BAD),
        **(_format("key", source, ONLY_BAD) if source.key_format in PARSED else {}),
        "includeHeaders": "true",
        "columns": ",".join(names),
        **_limit(source, True),
        **source.options,
    }


def writing(target: TopicTarget) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": target.bootstrap,
        "topic": target.topic.value,
        "deliveryGuarantee": "exactly-once" if target.exactly_once else "at-least-once",
        **{f"kafka.{name}": value for name, value in target.kafka.items()},
    }


def columns(source: TopicSource) -> tuple[str, ...]:
    """The columns of format `moldau` that the source reads. Ordering by age needs the offset."""
    needed = {"value", *source.metadata, *(["offset", "partition"] if source.latest_by else [])}
    for name in (*source.latest_by, source.watermark.column if source.watermark is not None else ""):
        if name.startswith("_") and name[1:] in ("key", "topic", "partition", "offset", "timestamp", "headers"):
            needed.add(name[1:])
    order = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
    return tuple(name for name in order if name in needed)


def _columns_of_table(source: TopicSource) -> tuple[str, ...]:
    """With one on which a condition can be put that makes Spark plan the table anew for each micro-batch."""
    wanted = columns(source)
    return wanted if always_true(wanted) is not None else (*wanted, "offset")


def planned_each_time(source: TopicSource) -> str:
    """That condition."""
    condition = always_true(_columns_of_table(source))
    assert condition is not None
    return condition


def _common(source: TopicSource, group: str, *, stream: bool) -> dict[str, str]:
    options = {"kafka.bootstrap.servers": source.bootstrap}
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if stream:
        options["kafka.group.id"] = group
    if "headers" in source.metadata:
        options["includeHeaders"] = "true"
    options |= {f"kafka.{name}": value for name, value in source.kafka.items()}
    return options


def _starting(source: TopicSource, *, stream: bool) -> dict[str, str]:
    start = source.start.value
    if start.startswith("-") and parse_ms(start[1:]) is not None:
        return {"startingOffsets": f"-{parse_ms(start[1:])}ms"}
    timestamp_ms = start_timestamp_ms(start)
    if timestamp_ms is not None:
        return {"startingTimestamp": str(timestamp_ms), "startingOffsetsByTimestampStrategy": "latest"}
    return {"startingOffsets": start}


def _format(part: str, source: TopicSource, mode: str) -> dict[str, str]:
    name, schema = (source.format, source.schema) if part == "value" else (source.key_format, source.key_schema)
    options = {f"{part}.format": name}
    if name != "binary":
        options[f"{part}.mode"] = mode
    if schema is not None:
        options[f"{part}.schema"] = schema.value
    return options


def _limit(source: TopicSource, stream: bool) -> dict[str, str]:
    if source.max_per_batch is None or not stream:
        return {}
    return {"maxOffsetsPerTrigger": str(source.max_per_batch)}
