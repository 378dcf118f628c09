"""Writes: columns and their types, save modes, keys and partitions, streams into topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.interop.spark import clients
from tests.interop.spark.differential.batch import PATIENCE
from tests.interop.spark.differential.engine import Change, Hand, Scenario, Step
from tests.interop.spark.differential.streams import EARLIEST, END_SECONDS_MAX
from tests.interop.spark.differential.world import World

NOW_MS = 1_750_000_000_000
"""Later timestamps were set by a clock and not by a scenario."""


def saved(query: str, options: Mapping[str, Any], mode: str | None = "append") -> Step:
    def see(hand: Hand) -> None:
        writer = hand.spark.sql(hand.named(query)).write.format(hand.format).options(**hand.options(options))
        (writer if mode is None else writer.mode(mode)).save()

    return Step(see, "save")


def written(partitions: int, isolation: str = "read_committed") -> Step:
    """What any client sees in the side's topic. Rows without a key may lie anywhere: see `spread`."""

    def see(hand: Hand) -> list[Any]:
        found = clients.read_all(hand.world.bootstrap, hand.named("<out>"), partitions, isolation)
        return sorted(
            ((one.partition, one.key, one.value, one.headers, min(one.timestamp_ms, NOW_MS)) for one in found),
            key=repr,
        )

    return Step(see, "save")


def make(partitions: int) -> tuple[Change, ...]:
    def make_both(world: World) -> None:
        for side in ("moldau", "kafka"):
            world.create(f"out-{side}", partitions)

    return (Change(make_both),)


def write(
    name: str,
    query: str,
    options: Mapping[str, Any] | None = None,
    *,
    partitions: int = 1,
    says: tuple[str, ...] = (),
    **how: Any,
) -> Scenario:
    wanted = {"topic": "<out>"} if options is None else options
    return Scenario(f"write/{name}", (*make(partitions), saved(query, wanted, **how), written(partitions)), says)


def scenarios() -> Iterator[Scenario]:
    yield from columns()
    yield from types()
    yield from topics_and_partitions()
    yield from modes_and_options()
    yield from streams()


N = "FROM RANGE(20)"
TEXT = "CAST(id AS STRING)"


def columns() -> Iterator[Scenario]:
    yield write("value", f"SELECT {TEXT} AS value {N}")
    yield write("value-key", f"SELECT {TEXT} AS key, concat('v', id) AS value {N}")
    yield write("order-of-columns", f"SELECT concat('v', id) AS value, {TEXT} AS key {N}")
    yield write("key-null", f"SELECT CAST(NULL AS STRING) AS key, {TEXT} AS value {N}")
    yield write("value-null", f"SELECT {TEXT} AS key, CAST(NULL AS BINARY) AS value {N}")
    yield write("both-null", "SELECT CAST(NULL AS BINARY) AS key, CAST(NULL AS STRING) AS value")
    yield write("some-null", f"SELECT IF(id % 3 = 0, NULL, {TEXT}) AS key, IF(id % 2 = 0, NULL, {TEXT}) AS value {N}")
    yield write("empty-texts", "SELECT '' AS key, '' AS value")
    yield write("binary", "SELECT X'00FF' AS key, X'FE00FF' AS value")
    yield write("unicode", "SELECT 'schlüssel' AS key, 'größe ✓' AS value")
    yield write("no-rows", f"SELECT {TEXT} AS value {N} WHERE id < 0")
    yield write("large-values", "SELECT repeat('x', 100000) AS value FROM RANGE(5)")
    yield write("extra-column", f"SELECT {TEXT} AS value, id AS other {N}")
    yield write("no-value", f"SELECT {TEXT} AS key {N}", says=("value",))
    yield write("no-value-at-all", f"SELECT id {N}", says=("value",))
    yield write("upper-case-value", f"SELECT {TEXT} AS VALUE {N}")
    yield write("upper-case-key", f"SELECT {TEXT} AS Key, {TEXT} AS value {N}")
    yield write("timestamp", "SELECT 'a' AS value, timestamp_millis(1700000000000) AS timestamp")
    header = "array(struct('h' AS key, CAST('x' AS BINARY) AS value))"
    with_headers = {"topic": "<out>", "includeHeaders": "true"}
    for word, options in (("on", with_headers), ("off", None)):
        yield write(f"headers-{word}", f"SELECT 'a' AS value, {header} AS headers", options)
    none = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    yield write("headers-null", f"SELECT 'a' AS value, {none} AS headers", with_headers)
    empty = "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
    yield write("headers-empty", f"SELECT 'a' AS value, {empty} AS headers", with_headers)
    value_null = "array(struct('h' AS key, CAST(NULL AS BINARY) AS value))"
    yield write("headers-value-null", f"SELECT 'a' AS value, {value_null} AS headers", with_headers)
    key_null = "array(struct(CAST(NULL AS STRING) AS key, CAST('x' AS BINARY) AS value))"
    yield write("headers-key-null", f"SELECT 'a' AS value, {key_null} AS headers", with_headers)
    many = f"concat({header}, {header}, array(struct('i' AS key, CAST('y' AS BINARY) AS value)))"
    yield write("headers-many", f"SELECT 'a' AS value, {many} AS headers", with_headers)


def types() -> Iterator[Scenario]:
    kinds = {
        "int": "1",
        "long": "1L",
        "double": "1.5D",
        "struct": "struct(1 AS a)",
        "map": "map('a', 'b')",
        "null": "NULL",
    }
    for name, literal in kinds.items():
        yield write(f"type/value-{name}", f"SELECT {literal} AS value", says=("value",))
        yield write(f"type/key-{name}", f"SELECT {literal} AS key, 'a' AS value", says=("key",))
    for name, literal in {"int": "1", "binary": "CAST('x' AS BINARY)", "null": "NULL"}.items():
        yield write(f"type/topic-{name}", f"SELECT {literal} AS topic, 'a' AS value", {}, says=("topic",))
    for name, literal in {"long": "0L", "text": "'0'", "short": "0S", "null": "NULL", "double": "0D"}.items():
        yield write(f"type/partition-{name}", f"SELECT {literal} AS partition, 'a' AS value", says=("partition",))
    shapes = {
        "text": "'h'",
        "map": "map('h', 'x')",
        "pairs-of-text": "array(struct('h' AS key, 'x' AS value))",
        "other-names": "array(struct('h' AS k, CAST('x' AS BINARY) AS v))",
        "three": "array(struct('h' AS key, CAST('x' AS BINARY) AS value, 1 AS more))",
    }
    for name, literal in shapes.items():
        options = {"topic": "<out>", "includeHeaders": "true"}
        yield write(f"type/headers-{name}", f"SELECT 'a' AS value, {literal} AS headers", options, says=("headers",))


def topics_and_partitions() -> Iterator[Scenario]:
    yield write("topic/column", f"SELECT '<out>' AS topic, {TEXT} AS value {N}", {})
    yield write("topic/option-wins", f"SELECT 'elsewhere' AS topic, {TEXT} AS value {N}")
    yield write("topic/none", f"SELECT {TEXT} AS value {N}", {}, says=("topic",))
    yield write("topic/null", "SELECT CAST(NULL AS STRING) AS topic, 'a' AS value", {}, says=("topic",))
    yield write("topic/null-with-option", "SELECT CAST(NULL AS STRING) AS topic, 'a' AS value")
    yield write("topic/empty-name", "SELECT 'a' AS value", {"topic": ""}, says=("topic",))
    yield write("topic/bad-name", "SELECT 'a' AS value", {"topic": "no such topic"}, says=("no such topic",))
    yield write("topic/bad-name-in-column", "SELECT 'no such' AS topic, 'a' AS value", {}, says=("no such",))
    keyed = f"SELECT {TEXT} AS key, {TEXT} AS value FROM RANGE(200)"
    yield write("partition/by-key", keyed, partitions=7)
    yield write("partition/by-binary-key", f"SELECT CAST({TEXT} AS BINARY) AS key, 'a' AS value {N}", partitions=5)
    yield write("partition/by-empty-key", "SELECT '' AS key, 'a' AS value", partitions=5)
    yield write("partition/column", f"SELECT CAST(id % 3 AS INT) AS partition, {TEXT} AS value {N}", partitions=3)
    both = f"SELECT CAST(id % 3 AS INT) AS partition, {TEXT} AS key, {TEXT} AS value {N}"
    yield write("partition/beats-key", both, partitions=3)
    some = f"SELECT IF(id % 2 = 0, CAST(1 AS INT), NULL) AS partition, {TEXT} AS key, {TEXT} AS value {N}"
    yield write("partition/null-by-key", some, partitions=3)
    yield write("partition/too-large", "SELECT 9 AS partition, 'a' AS value", {**QUICK, "topic": "<out>"}, partitions=3)
    yield write("partition/negative", "SELECT -1 AS partition, 'a' AS value", partitions=3)


QUICK = {"kafka.max.block.ms": "3000", "kafka.delivery.timeout.ms": "4000", "kafka.request.timeout.ms": "3000"}


def modes_and_options() -> Iterator[Scenario]:
    query = f"SELECT {TEXT} AS value {N}"
    for mode in (None, "append", "overwrite", "ignore", "error", "errorifexists"):
        yield write(f"mode/{mode}", query, mode=mode)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd", "nonsense"):
        yield write(f"option/compression-{codec}", query, {"topic": "<out>", "kafka.compression.type": codec})
    for name, value in {
        "kafka.acks": "all",
        "kafka.batch.size": "1000",
        "kafka.linger.ms": "5",
        "kafka.client.id": "me",
        "kafka.max.in.flight.requests.per.connection": "1",
        "kafka.metadata.recovery.strategy": "none",
        "kafka.partitioner.ignore.keys": "false",
        "kafka.delivery.timeout.ms": "60000",
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.key.serializer": "x",
        "kafka.acks=1": "1",
        "kafka.enable.idempotence": "false",
        "kafka.batch.size=word": "many",
        "unknownOption": "x",
        "path": "somewhere",
        "startingOffsets": "earliest",
    }.items():
        option = name.partition("=")[0]
        yield write(f"option/{name}", query, {"topic": "<out>", option: value})
    yield write("option/no-servers", query, {"topic": "<out>", "kafka.bootstrap.servers": None}, says=("bootstrap",))
    nobody = {"topic": "<out>", "kafka.bootstrap.servers": "127.0.0.1:9", **QUICK}
    yield write("option/nobody-there", query, {**nobody, "kafka.default.api.timeout.ms": "4000"}, says=("127.0.0.1:9",))
    large = {"topic": "<out>", "kafka.max.request.size": "20000000"}
    yield write("too-large", "SELECT repeat('x', 9000000) AS value", {**large, "kafka.buffer.memory": "40000000"})


# -- streams into topics -----------------------------------------------------------------------------------------------


def poured(make_frame: Any, options: Mapping[str, Any], mode: str = "append", *, state: bool = True) -> Step:
    """From the shared topic `plain` into the side's own."""

    def see(hand: Hand) -> None:
        wanted = hand.options({"subscribe": "plain", **EARLIEST, **PATIENCE})
        frame = make_frame(hand.spark.readStream.format(hand.format).options(**wanted).load())
        writer = frame.writeStream.format(hand.format).options(**hand.options(options)).outputMode(mode)
        if state:
            writer = writer.option("checkpointLocation", str(hand.folder / "state"))
        hand.query = writer.trigger(availableNow=True).start()
        assert hand.query.awaitTermination(END_SECONDS_MAX), "the query did not end"
        hand.query = None

    return Step(see, "save")


def streams() -> Iterator[Scenario]:
    out = {"topic": "<out>"}
    frames: dict[str, Any] = {
        "copy": lambda t: t.select("key", "value"),
        "all-columns": lambda t: t.drop("topic", "timestamp"),
        "partition": lambda t: t.select("key", "value", "partition"),
        "filtered": lambda t: t.where("offset > 5").select("key", "value"),
        "counted": lambda t: t.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value"),
        "wrong-type": lambda t: t.selectExpr("key", "offset AS value"),
        "no-value": lambda t: t.select("key"),
    }
    for name, frame in frames.items():
        mode = "complete" if name == "counted" else "append"
        yield Scenario(f"write/stream/{name}", (*make(3), poured(frame, out, mode), written(3)))
    copy = frames["copy"]
    yield Scenario("write/stream/update", (*make(3), poured(frames["counted"], out, "update"), written(3)))
    yield Scenario("write/stream/no-checkpoint", (*make(3), poured(copy, out, state=False), written(3)))
    yield Scenario("write/stream/no-topic", (*make(3), poured(copy, {}), written(3)), ("topic",))
    twice = (poured(copy, out), poured(copy, out))
    yield Scenario("write/stream/twice", (*make(3), *twice, written(3)))
    column = frames["copy"]
    named = (lambda t: column(t).selectExpr("key", "value", "'elsewhere' AS topic"), out)
    yield Scenario("write/stream/topic-option-wins", (*make(3), poured(*named), written(3)))
