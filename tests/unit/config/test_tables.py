"""The option tables hold Kafka 4.3's facts; deviations are listed here, with their reasons."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from moldau.config import catalog
from moldau.config.explain import allowed_values
from moldau.config.parsing import parse, render
from moldau.config.tables import retired
from moldau.model.options import Effect, Kind, Option, Update

FACTS = Path(__file__).with_name("kafka_4_3_options.tsv")

OWN_DEFAULTS = {
    "node.id": "1",  # Kafka demands these three; moldau starts without a file
    "process.roles": "broker,controller",
    "controller.listener.names": "",
    "transaction.two.phase.commit.enable": "true",  # the Spark sink builds on it (decision 6)
}
TABLES = {
    "broker": catalog.BROKER,
    "topic": catalog.TOPIC,
    "group": catalog.GROUP,
    "client_metrics": catalog.CLIENT_METRICS,
}


def facts() -> list[dict[str, str]]:
    lines = FACTS.read_text().splitlines()[1:]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_every_key_of_kafka_is_declared_and_no_other() -> None:
    for scope, table in TABLES.items():
        kafka = {fact["name"] for fact in facts() if fact["scope"] == scope}
        assert len(kafka) >= 3
        assert {name for name in table if not name.startswith("moldau.")} == kafka


@pytest.mark.parametrize("fact", facts(), ids=lambda fact: f"{fact['scope']}:{fact['name']}")
def test_a_declaration_says_what_kafka_says(fact: dict[str, str]) -> None:
    option = TABLES[fact["scope"]][fact["name"]]
    assert option.kind.name == fact["type"]
    assert option.importance.name == fact["importance"]
    assert option.internal == (fact["internal"] == "internal")
    assert default_of(option) == OWN_DEFAULTS.get(option.name, default_in(fact))
    assert bounds_of(option) == bounds_in(fact)
    if fact["scope"] == "broker":
        assert option.update.value == ("read-only" if fact["update"] == "-" else fact["update"])


def default_of(option: Option) -> str | None:
    return render(option.kind, option.default)


def default_in(fact: dict[str, str]) -> str | None:
    text = fact["default"].removeprefix("LIST:").removeprefix("class ")
    return None if text == "\\N" else text


def bounds_of(option: Option) -> str:
    return allowed_values(option)


def bounds_in(fact: dict[str, str]) -> str:
    text = fact["allowed"]
    if text in ("null", "", "non-null string") or text.startswith(("[partitionId]", "[latest")):
        return ""
    if text == "non-empty list":  # what the validator calls itself; it takes the empty list, which is the default
        return ""
    if text == "non-empty string":
        return "not empty"
    if ",..." not in text:
        return text.removeprefix("(case insensitive) ").strip("[]")
    low, _, rest = text.strip("[").partition(",...")
    high, _, also = rest.strip(",").partition("]")
    return (f"{low} to {high}" if high else f"at least {low}") + also


def test_every_default_is_a_value_its_option_accepts() -> None:
    for table in TABLES.values():
        for option in table.values():
            text = render(option.kind, option.default)
            if text is not None:
                assert parse(option, text) == option.default, option.name


def test_every_key_is_documented_in_a_sentence_of_at_most_three_lines() -> None:
    for table in TABLES.values():
        for option in table.values():
            assert option.doc[0].isupper(), option.name
            assert option.doc.endswith("."), option.name
            assert 15 <= len(option.doc) <= 330, option.name
            assert "<" not in option.doc.replace("by_duration:<ISO 8601>", ""), option.name


def test_keys_that_steer_java_do_not_claim_to_act() -> None:
    for option in catalog.BROKER.values():
        if option.kind is Kind.CLASS or option.name in ("num.io.threads", "num.network.threads"):
            assert option.effect is not Effect.ACTS, option.name


def test_topic_and_group_defaults_point_at_broker_keys_of_the_same_type() -> None:
    for topic_key, broker_keys in catalog.TOPIC_DEFAULTS.items():
        first = catalog.BROKER[broker_keys[0][0]]
        assert first.kind is catalog.TOPIC[topic_key].kind, topic_key
        assert first.update is Update.CLUSTER_WIDE, topic_key
    for group_key, broker_key in catalog.GROUP_DEFAULTS.items():
        assert catalog.BROKER[broker_key].default == catalog.GROUP[group_key].default


def test_retired_names_are_not_in_use() -> None:
    for name in (*retired.REFUSED, *retired.IGNORED):
        assert name not in catalog.BROKER
    for name in retired.TOPIC_RETIRED:
        assert name not in catalog.TOPIC


def test_replacements_named_for_retired_keys_exist() -> None:
    for text in (*retired.REFUSED.values(), *retired.IGNORED.values()):
        for word in text.split("`")[1::2]:
            assert word in catalog.BROKER or word == "share.version", word


@pytest.mark.parametrize(
    ("key", "chain"),
    [
        ("log.retention.ms", ("log.retention.ms", "log.retention.minutes", "log.retention.hours")),
        ("log.retention.hours", ("log.retention.hours",)),
        ("num.partitions", ("num.partitions",)),
        ("listener.name.ext.ssl.client.auth", ("listener.name.ext.ssl.client.auth", "ssl.client.auth")),
        (
            "listener.name.ext.scram-sha-256.sasl.jaas.config",
            ("listener.name.ext.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ),
    ],
)
def test_synonyms_are_listed_strongest_first(key: str, chain: tuple[str, ...]) -> None:
    assert catalog.synonyms(key) == chain


def test_only_security_and_connection_keys_exist_per_listener() -> None:
    assert catalog.broker_option("listener.name.ext.num.partitions") is None
    assert catalog.broker_option("listener.name.ext.max.connections") is not None


def test_the_words_about_moldau_up_are_true() -> None:
    from moldau.cli.local_broker import DEFAULT_DATA_DIR
    from moldau.cli.up import DEFAULT_PORTS, LOOPBACK

    assert f"`{DEFAULT_DATA_DIR}`" in catalog.BROKER["log.dirs"].doc
    first, *others = DEFAULT_PORTS
    assert f"`{LOOPBACK}:{first}`" in catalog.BROKER["listeners"].doc
    assert f"{others[0]} to {others[-1]}" in catalog.BROKER["listeners"].doc
