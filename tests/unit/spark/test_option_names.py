"""Code for Spark's own Kafka source and sink changes one word: options that mean something there are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.spark.option_names import CLIENT_SETTINGS, OF_CONNECTOR, OF_SPARK, Judged, judge_sink, judge_source

BOTH = pytest.mark.parametrize("judge", [judge_source, judge_sink])
Judge = Callable[[list[str]], Judged]


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        *OF_CONNECTOR,
        *(name for name in OF_SPARK if name != "path"),
        "startingOffsets",  # one set of options for reads and writes
        "topic",
        "includeHeaders",
        "kafka.metadata.recovery.strategy",
        "kafka.partitioner.ignore.keys",
        "kafka.max.poll.interval.ms",
        "kafka.ssl.truststore.location",
        "kafka.sasl.jaas.config",
    ],
)
def test_options_of_spark_of_its_connector_and_of_kafkas_clients_are_taken(judge: Judge, name: str) -> None:
    assert judge([name, name.upper()]) == ([], [])


@BOTH
@pytest.mark.parametrize("name", ["frobnicate", "kafka.schema.registry.url", "header"])
def test_what_nobody_knows_is_worth_a_warning(judge: Judge, name: str) -> None:
    found = judge([name])
    assert found.mistakes == []
    assert f"unknown option '{name}' does nothing" in found.warnings[0]


@BOTH
@pytest.mark.parametrize("name", ["group.id", "compression.type"])
def test_a_client_setting_without_its_prefix_is_told(judge: Judge, name: str) -> None:
    found = judge([name])
    assert (found.mistakes, f"kafka.{name}" in found.warnings[0]) == ([], True)


@pytest.mark.parametrize(
    ("judge", "name", "meant"),
    [
        (judge_source, "startingOfsets", "startingOffsets"),
        (judge_source, "failOnDataLos", "failOnDataLoss"),
        (judge_source, "kafka.isolation.levle", "kafka.isolation.level"),
        (judge_sink, "kafka.compresion.type", "kafka.compression.type"),
        (judge_sink, "deliveryGarantee", "deliveryGuarantee"),
    ],
)
def test_a_slip_is_refused(judge: Judge, name: str, meant: str) -> None:
    """A read that begins elsewhere is worse than an error."""
    assert judge([name]) == ([f"unknown option '{name.lower()}': did you mean {meant}?"], [])


def test_a_path_does_nothing() -> None:
    assert "name the topic with the option subscribe" in judge_source(["path"]).warnings[0]
    assert "name the topic with the option topic" in judge_sink(["path"]).warnings[0]


def test_no_setting_of_a_client_is_a_slip_of_another() -> None:
    assert judge_sink([f"kafka.{name}" for name in CLIENT_SETTINGS]) == ([], [])
