"""Options of the Spark source: every one of them, its precedence, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.decision_log import DECISIONS_TOPIC
from moldau.model.ids import TopicPartition
from moldau.pipelines.events import TOPIC as EVENTS_TOPIC
from moldau.spark.option_names import SOURCE_OPTIONS
from moldau.spark.option_values import parse_delay_ms
from moldau.spark.source.options import (
    MAX_TRIGGER_DELAY_MS,
    OptionsWrong,
    SourceOptions,
    ignored_in_batch,
    parse,
)
from moldau.spark.source.positions import Anchor
from moldau.spark.source.subscription import Subscription, group_name
from moldau.spark.types import Format

WHERE = {"kafka.bootstrap.servers": "localhost:9092"}


def options(streaming: bool | None = None, /, **given: str) -> SourceOptions:
    chosen = {} if {"subscribePattern", "assign"} & given.keys() else {"subscribe": "orders"}
    return parse({**WHERE, **chosen, **given}, streaming=streaming)


def mistakes(streaming: bool | None = None, /, **given: str) -> str:
    with pytest.raises(OptionsWrong) as wrong:
        options(streaming, **given)
    return str(wrong.value)


# -- where and what ----------------------------------------------------------------------------------------------------


def test_the_fewest_options() -> None:
    found = options()
    assert found.bootstrap == "localhost:9092"
    assert found.subscription == Subscription(topics=("orders",))
    assert found.read_committed
    assert found.fail_on_data_loss
    assert found.group == "spark-orders"


def test_bootstrap_is_a_short_name_for_the_servers() -> None:
    assert parse({"bootstrap": "a:1,b:2", "subscribe": "t"}).bootstrap == "a:1,b:2"


def test_the_servers_are_needed_and_checked() -> None:
    with pytest.raises(OptionsWrong, match=r"kafka\.bootstrap\.servers is missing"):
        parse({"subscribe": "t"})
    with pytest.raises(OptionsWrong, match=r"'kafka\.bootstrap\.server' is none of the options"):
        parse({"subscribe": "t", "kafka.bootstrap.server": "a:1"})
    for wrong in ("a:port", "http://a:1", "SSL://a:1"):
        with pytest.raises(OptionsWrong, match=f"'{wrong}' is not HOST:PORT"):
            parse({"subscribe": "t", "kafka.bootstrap.servers": wrong})


def test_servers_may_be_copied_from_listeners() -> None:
    given = "PLAINTEXT://a:1, PLAINTEXT://b:2"
    assert parse({"subscribe": "t", "kafka.bootstrap.servers": given}).bootstrap == "a:1,b:2"


def test_no_options_at_all_names_the_usual_reason() -> None:
    with pytest.raises(OptionsWrong, match="CREATE TEMPORARY VIEW"):
        parse({})
    with pytest.raises(OptionsWrong, match="CREATE TEMPORARY VIEW"):
        parse({**WHERE, "subscribe": "t", "provider": "moldau", "option.subscribe": "t", "owner": "me"})


def test_topics_are_split_and_taken_once() -> None:
    assert options(subscribe=" a, b ,a,").subscription.topics == ("a", "b")


@pytest.mark.parametrize("text", ["", " , "])
def test_an_empty_subscription_is_a_mistake(text: str) -> None:
    assert "names no topic" in mistakes(subscribe=text)


def test_a_topic_name_is_checked() -> None:
    assert "'no such' is not a topic name" in mistakes(subscribe="fine,no such")


def test_a_pattern_is_found_anywhere_in_a_name() -> None:
    """As Spark's Kafka source has it since it asks an admin client (`findFirstIn`)."""
    subscription = options(subscribePattern="orders-").subscription
    assert subscription.matches("orders-eu")
    assert subscription.matches("old-orders-eu")
    assert not subscription.matches("orders")
    assert not options(subscribePattern="^orders-").subscription.matches("old-orders-eu")
    assert not options(subscribePattern="^orders$").subscription.matches("orders-eu")


def test_a_pattern_leaves_internal_topics_alone() -> None:
    everything = options(subscribePattern=".*").subscription
    assert everything.matches("__of_somebody_else"), "what the broker does not flag is a topic like others"
    assert not everything.matches("orders", internal=True)
    assert not any(everything.matches(topic) for topic in (DECISIONS_TOPIC, EVENTS_TOPIC))
    assert options(subscribePattern="__mol.*").subscription.matches(DECISIONS_TOPIC)
    assert options(subscribePattern="^__pipelines").subscription.matches(EVENTS_TOPIC)


def test_a_pattern_must_be_one() -> None:
    assert "not a regular expression" in mistakes(subscribePattern="orders-(")
    assert "empty" in mistakes(subscribePattern=" ")


@pytest.mark.parametrize("pattern", ["[a-z&&[^b]]+", r"\p{Alpha}+"])
def test_a_pattern_that_java_reads_otherwise_is_told(pattern: str) -> None:
    assert "is not a regular expression of Python" in mistakes(subscribePattern=pattern)


def test_partitions_are_assigned() -> None:
    subscription = options(assign='{"b":[1,0],"a":[2]}').subscription
    assert subscription.assigned == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))


@pytest.mark.parametrize("text", ["orders", "[1]", '{"orders":0}', '{"orders":["0"]}', '{"orders":[-1]}', "{}"])
def test_an_assignment_must_look_like_one(text: str) -> None:
    assert "option assign" in mistakes(assign=text)


def test_exactly_one_way_to_choose_topics() -> None:
    with pytest.raises(OptionsWrong, match="nothing says which topics"):
        parse(WHERE)
    with pytest.raises(OptionsWrong, match="subscribe and assign exclude each other"):
        parse({**WHERE, "subscribe": "t", "assign": '{"t":[0]}'})


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_are_case_insensitive() -> None:
    assert options(STARTINGOFFSETS="latest").starting.anchor is Anchor.LATEST


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failOnDataloss2", "failOnDataLoss"),
        ("value.formt", "value.format"),
        ("include_headers", "includeHeaders"),
    ],
)
def test_an_unknown_option_is_told_with_the_likely_one(name: str, meant: str) -> None:
    assert f"did you mean {meant}?" in mistakes(**{name: "1"})


def test_a_path_or_the_sinks_topic_does_not_say_what_to_read() -> None:
    for name in ("path", "topic", "topics"):
        with pytest.raises(OptionsWrong, match=f"set exactly one of subscribe.*option {name} does not do it"):
            parse({"kafka.bootstrap.servers": "b:1", name: "orders"})


def test_client_settings_are_handed_on() -> None:
    assert options(**{"kafka.receive.buffer.bytes": "1"}).client["receive.buffer.bytes"] == "1"


@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"],
)
def test_client_settings_that_would_do_harm_are_refused_with_the_alternative(name: str) -> None:
    assert f"kafka.{name} has no place here: " in mistakes(**{f"kafka.{name}": "x"})


@pytest.mark.parametrize("name", ["request.timeout.ms", "fetch.max.bytes"])
def test_client_settings_that_are_numbers(name: str) -> None:
    assert f"option kafka.{name}: 'soon' is not a whole number" in mistakes(**{f"kafka.{name}": "soon"})


def test_client_settings_take_units() -> None:
    client = options(**{"kafka.request.timeout.ms": "30s", "kafka.fetch.max.bytes": "64MiB"}).client
    assert (client["request.timeout.ms"], client["fetch.max.bytes"]) == ("30000", str(64 << 20))
    assert mistakes(**{"kafka.fetch.max.bytes": "5s"}).count("kafka.fetch.max.bytes") == 1


def test_every_option_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    assert [name for name in SOURCE_OPTIONS if f"`{name}`" not in page] == []


def test_security_is_not_there_yet() -> None:
    assert "SASL_SSL is not supported yet" in mistakes(**{"kafka.security.protocol": "SASL_SSL"})
    assert options(**{"kafka.security.protocol": "plaintext"})


def test_all_mistakes_are_told_at_once() -> None:
    text = mistakes(minPartitions="0", includeHeaders="yes", startingOfsets="1")
    assert text.startswith("3 mistakes in the options:")


# -- values ------------------------------------------------------------------------------------------------------------


def test_isolation() -> None:
    assert not options(**{"kafka.isolation.level": "read_uncommitted"}).read_committed
    assert "did you mean read_committed?" in mistakes(**{"kafka.isolation.level": "read_comitted"})


def test_numbers_and_truths() -> None:
    found = options(
        True, maxOffsetsPerTrigger="100", minOffsetsPerTrigger="10", maxTriggerDelay="5m", minPartitions="4",
        maxRecordsPerPartition="7", includeHeaders="TRUE", failOnDataLoss="false",
    )  # fmt: skip
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger) == (100, 10)
    assert found.max_trigger_delay_ms == 300_000
    assert (found.min_partitions, found.max_records_per_partition) == (4, 7)
    assert found.include_headers
    assert not found.fail_on_data_loss
    assert options(True).max_trigger_delay_ms == MAX_TRIGGER_DELAY_MS == 900_000


@pytest.mark.parametrize(
    "name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"]
)
@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_counts_are_at_least_one(name: str, text: str) -> None:
    assert f"option {name}: '{text}' is not a whole number of at least 1" in mistakes(**{name: text})


def test_the_smallest_batch_cannot_be_larger_than_the_largest() -> None:
    assert "is larger than" in mistakes(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="9")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("15m", 900_000), ("15min", 900_000), ("250", 250), ("90s", 90_000), ("1h30m", 5_400_000), ("2 h", 7_200_000)],
)
def test_delays(text: str, expected_ms: int) -> None:
    assert parse_delay_ms(text) == expected_ms


def test_no_delay_at_all() -> None:
    assert options(True, maxTriggerDelay="0").max_trigger_delay_ms == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("maxOffsetsPerTrigger", str(2**63)),
        ("startingOffsets", str(2**63)),
        ("startingOffsets", f'{{"orders":{{"0":{2**63}}}}}'),
        ("startingTimestamp", str(2**63)),
        ("startingOffsetsByTimestamp", f'{{"orders":{{"0":{2**63}}}}}'),
        ("kafka.fetch.max.bytes", str(2**31)),
    ],
)
def test_numbers_that_nobody_could_send(name: str, text: str) -> None:
    assert f"option {name}: " in mistakes(**{name: text})
    assert options(**{name: text.replace(str(2**63), str(2**63 - 1)).replace(str(2**31), str(2**31 - 1))})


def test_checksums_are_left_out_only_on_request() -> None:
    assert "option kafka.check.crcs: 'yes' is neither true nor false" in mistakes(**{"kafka.check.crcs": "yes"})


def test_a_delay_must_be_one() -> None:
    assert "option maxTriggerDelay" in mistakes(maxTriggerDelay="soon")
    assert "option maxTriggerDelay" in mistakes(maxTriggerDelay="3 fortnights")


def test_formats() -> None:
    found = options(
        **{"value.format": "JSON", "value.schema": "a INT", "value.mode": "permissive", "key.format": "string"}
    )
    assert found.value == Format("json", "a INT", "PERMISSIVE")
    assert found.key == Format("string")
    assert "'xml' is not one of binary, string, json, avro" in mistakes(**{"value.format": "xml"})
    assert "did you mean DROPMALFORMED?" in mistakes(**{"value.mode": "DROPMALFORM"})
    assert "option value.schema: the format json needs a schema" in mistakes(**{"value.format": "json"})
    assert "option key.schema: cannot read" in mistakes(**{"key.format": "json", "key.schema": "a INTT"})


@pytest.mark.parametrize("ddl", ["a DECIMAL(39,2)", "a ARRAY<DECIMAL(5,6)>", "a DECIMAL(0,0)", "a INT, b INT, a INT"])
def test_schemas_that_nobody_can_hold_are_told_at_once(ddl: str) -> None:
    assert "option value.schema: the" in mistakes(**{"value.format": "json", "value.schema": ddl})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"value.schema": "a INT"}, "value.schema has no meaning with value.format=binary: set value.format to json"),
        ({"key.schema": "a INT", "key.format": "string"}, "key.schema has no meaning with key.format=string"),
        ({"value.mode": "PERMISSIVE"}, "value.mode has no meaning with value.format=binary"),
        (
            {"value.format": "json", "value.schema": "a INT", "value.registry": "http://r"},
            "value.registry has no meaning with value.format=json: set value.format to avro",
        ),
        (
            {"value.format": "avro", "value.schema": '"int"', "value.registry": "r:8081"},
            "option value.registry: 'r:8081' is not a URL",
        ),
    ],
)
def test_a_forgotten_format_is_told(given: dict[str, str], said: str) -> None:
    assert said in mistakes(**given)


def test_columns() -> None:
    assert options(columns="offset, key").columns == ("offset", "key")
    assert "no column 'valu'" in mistakes(columns="valu")
    assert "no column 'headers' without includeHeaders=true" in mistakes(columns="headers")
    assert "no column 'valueRaw' without a value.format and value.mode=PERM" in mistakes(columns="valueRaw")
    assert options(columns="headers", includeHeaders="true").columns == ("headers",)
    assert "twice" in mistakes(columns="key,key")
    assert "names nothing" in mistakes(columns=",")


def test_groups() -> None:
    assert options(groupIdPrefix="team").group == "team-orders"
    assert options(**{"kafka.group.id": "mine", "groupIdPrefix": "team"}).group == "mine"
    assert options(commitOffsets="false", **{"kafka.group.id": "mine"}).group == ""
    assert options(assign='{"b":[1,0],"a":[2]}').group == "spark-a,b"
    long = group_name("spark", Subscription(topics=tuple(f"topic-{number}" for number in range(100))))
    other = group_name("spark", Subscription(topics=tuple(f"topic-{number}" for number in range(101))))
    assert len(long) == 200
    assert long != other


# -- batch and stream --------------------------------------------------------------------------------------------------


def test_defaults_of_the_ends() -> None:
    assert options(True).starting.anchor is Anchor.LATEST
    assert options(False).starting.anchor is Anchor.EARLIEST
    assert options(False).ending.anchor is Anchor.LATEST


def test_a_timestamp_for_all_beats_timestamps_beat_offsets() -> None:
    by_time = '{"orders":{"0":5}}'
    every = {"startingTimestamp": "7", "startingOffsetsByTimestamp": by_time, "startingOffsets": "latest"}
    assert options(**every).starting.timestamp_ms == 7
    del every["startingTimestamp"]
    assert options(**every).starting.anchor is Anchor.TIMES
    del every["startingOffsetsByTimestamp"]
    assert options(**every).starting.anchor is Anchor.LATEST
    assert options(False, endingTimestamp="9", endingOffsets="latest").ending.timestamp_ms == 9


def test_what_happens_when_no_record_is_that_new() -> None:
    assert not options(startingTimestamp="7").starting.latest_if_none
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert options(startingTimestamp="7", **latest).starting.latest_if_none
    assert options(startingOffsetsByTimestamp='{"orders":{"0":5}}', **latest).starting.latest_if_none
    assert options(False, endingTimestamp="7").ending.latest_if_none
    assert options(startingOffsets="-10m").starting.latest_if_none
    said = mistakes(startingOffsetsByTimestampStrategy="skip")
    assert said == "option startingOffsetsByTimestampStrategy: 'skip' is not one of error, latest"


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": "7", "endingOffsetsByTimestamp": '{"orders":{"0":5}}'}[name]
    assert f"option {name} has no place in a streaming query" in mistakes(True, **{name: value})
    assert options(None, **{name: value})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": "latest"}, "can't be latest in a batch"),
        ({"endingOffsets": "earliest"}, "can't be earliest in a batch"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "orders-0 can't be latest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "orders-0 can't be earliest"),
        (
            {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":8}}'},
            "offset of orders-0 (9) is after its ending offset (8)",
        ),
        (
            {"startingOffsets": '{"orders":{"0":1}}', "endingOffsets": '{"orders":{"1":8}}'},
            "must name the same partitions; orders-0",
        ),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":9}}', "endingOffsetsByTimestamp": '{"orders":{"0":8}}'},
            "timestamp of orders-0 (9) is after",
        ),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "startingTimestamp is after endingTimestamp"),
        ({"startingOffsets": "-1h", "endingOffsets": "-2h"}, "startingOffsets is after endingOffsets"),
        ({"startingOffsets": "-5", "endingOffsets": "-10"}, "startingOffsets is after endingOffsets"),
        ({"startingOffsets": "9", "endingOffsets": "8"}, "startingOffsets is after endingOffsets"),
    ],
)
def test_batches_that_could_give_nothing(given: dict[str, str], said: str) -> None:
    assert said in mistakes(False, **given)


def test_the_last_records_of_a_batch_are_fine() -> None:
    assert options(False, startingOffsets="-5").starting.shift == -5
    assert options(False, startingOffsets="-2h", endingOffsets="-1h")
    assert options(False, startingOffsets="-10", endingOffsets="-5")
    assert options(False, startingTimestamp="8", endingTimestamp="8")


def test_stream_options_in_a_batch_are_only_worth_a_warning() -> None:
    assert ignored_in_batch({"maxoffsetspertrigger": "1", "subscribe": "t"}) == ["maxOffsetsPerTrigger"]
    assert options(False, maxOffsetsPerTrigger="1", minOffsetsPerTrigger="1", maxTriggerDelay="1s")


def test_what_is_wrong_for_a_batch_and_a_stream_alike_is_told_at_load() -> None:
    """Spark does not say at load which of the two it is; an end makes it a batch or a mistake."""
    with pytest.raises(OptionsWrong, match="startingOffsets can't be latest in a batch query"):
        parse({**WHERE, "subscribe": "t", "startingOffsets": "latest", "endingOffsets": "latest"})
    assert parse({**WHERE, "subscribe": "t", "startingOffsets": "latest"})
