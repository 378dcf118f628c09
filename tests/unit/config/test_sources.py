"""File, environment, command line: precedence, syntax, and every mistake at once."""

from __future__ import annotations

import pytest

from moldau.config.environment import key_of
from moldau.config.mistakes import Mistake, SettingsError
from moldau.config.properties import BadSyntax, parse_properties
from moldau.config.settings import Settings
from moldau.config.sources import ConfigFile
from moldau.config.toml import parse_toml

KAFKA_SINGLE_NODE_FILE = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def mistakes_of(**sources: object) -> tuple[Mistake, ...]:
    with pytest.raises(SettingsError) as failure:
        Settings.from_sources(**sources)  # type: ignore[arg-type]
    return failure.value.mistakes


def properties(text: str) -> ConfigFile:
    return ConfigFile("server.properties", text)


# -- precedence ------------------------------------------------------------------------------------------------------


def test_the_command_line_beats_the_environment_which_beats_the_file() -> None:
    file = properties("num.partitions=2\nfetch.max.bytes=2000\nlog.dir=/file")
    env = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_FETCH_MAX_BYTES": "3000"}
    settings = Settings.from_sources(file=file, env=env, overrides=["num.partitions=4"])
    assert settings.int("num.partitions") == 4
    assert settings.int("fetch.max.bytes") == 3000
    assert settings.log_dirs == ("/file",)
    assert settings.int("default.replication.factor") == 1
    assert settings.origin("num.partitions") == "--set num.partitions"
    assert settings.origin("fetch.max.bytes") == "environment KAFKA_FETCH_MAX_BYTES"
    assert settings.origin("log.dir") == "server.properties:3"
    assert settings.origin("default.replication.factor") == "default"


def test_kafkas_own_single_node_file_is_accepted() -> None:
    settings = Settings.from_sources(file=properties(KAFKA_SINGLE_NODE_FILE))
    assert [listener.name for listener in settings.listeners()] == ["PLAINTEXT"]
    assert [(at.host, at.port) for at in settings.advertised_listeners()] == [("localhost", 9092)]
    assert settings.log_dirs == ("/tmp/kraft-combined-logs",)


def test_nothing_at_all_is_a_working_single_node() -> None:
    settings = Settings.from_sources()
    assert settings.node_id == 1
    assert settings.listeners()[0].port == 9092
    assert settings.notices == ()


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_all_mistakes_are_reported_at_once_with_their_places() -> None:
    file = properties("# comment\nnum.partitons=3\nnum.io.threads=many\nlog.retention.hours=0")
    found = mistakes_of(file=file, env={"KAFKA_LISTENERS": "nonsense"}, overrides=["port=9092", "no-value"])
    places = {mistake.where for mistake in found}
    assert places == {
        "server.properties:2",
        "server.properties:3",
        "server.properties:4",
        "environment KAFKA_LISTENERS",
        "--set port",
        "--set no-value",
    }
    assert len(found) == 6


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("num.partitons", "did you mean num.partitions?"),
        ("log.retention.hour", "did you mean log.retention.hours?"),
        ("retention.log.hours", "did you mean log.retention.hours?"),
        ("retention.ms", "for the default of all topics use log.retention.ms"),
        ("internal.segment.bytes", "moldau config set topic NAME internal.segment.bytes=VALUE"),
        ("log.cleaner.enabled", "log.cleaner.enable"),
        ("host.name", "listeners"),
        ("advertised.host.name", "advertised.listeners"),
        ("leader.replication.throttled.rate", "moldau config set broker ID"),
        ("zzz", "moldau config explain"),
    ],
)
def test_a_wrong_name_comes_with_advice(key: str, hint: str) -> None:
    (mistake,) = mistakes_of(overrides={key: "1"})
    assert hint in mistake.fix


def test_the_text_of_the_error_names_place_reason_and_fix() -> None:
    with pytest.raises(SettingsError) as failure:
        Settings.from_sources(file=properties("num.partitons=3"))
    text = str(failure.value)
    assert "error[MD-2001]: 1 mistake in the configuration" in text
    assert "server.properties:1" in text
    assert "did you mean num.partitions?" in text


def test_harmless_old_keys_only_raise_a_notice() -> None:
    settings = Settings.from_sources(overrides={"replica.lag.max.messages": "4000", "zookeeper.connect": "z:2181"})
    assert [notice.warning for notice in settings.notices] == [True, True]
    assert "replica.lag.time.max.ms" in settings.notices[0].text


def test_keys_without_effect_are_told_in_one_line() -> None:
    lines = ["num.io.threads=16", "socket.receive.buffer.bytes=1", "num.network.threads=3", "queued.max.requests=500"]
    file = properties("\n".join(lines))
    (notice,) = Settings.from_sources(file=file).notices
    assert not notice.warning
    assert notice.text.endswith(": num.io.threads, socket.receive.buffer.bytes")  # the others stand at their defaults


def test_protection_that_is_not_there_yet_is_a_warning_and_other_features_are_not() -> None:
    overrides = {
        "authorizer.class.name": "x.Y",
        "listener.name.ext.ssl.client.auth": "required",
        "group.streams.max.size": "5",
    }
    later, missing = Settings.from_sources(overrides=overrides).notices
    assert not later.warning
    assert later.text.endswith(": group.streams.max.size")
    assert missing.warning
    assert missing.text.endswith(": authorizer.class.name, listener.name.ext.ssl.client.auth")


def test_kafkas_own_file_gives_no_cause_for_warnings() -> None:
    settings = Settings.from_sources(file=properties(KAFKA_SINGLE_NODE_FILE))
    assert len(settings.notices) == 2
    assert not any(notice.warning for notice in settings.notices)


# -- the rules between keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"listeners": "SSL://:9093"}, "does not serve yet"),
        ({"listeners": "EXT://:9093"}, "no security protocol is known for EXT"),
        ({"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9093"}, "the name PLAINTEXT occurs twice"),
        (
            {
                "listeners": "PLAINTEXT://:9092,B://:9092",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            },
            "used twice",
        ),
        ({"listeners": "PLAINTEXT://::1:9092"}, "square brackets"),
        ({"listeners": "PLAINTEXT://:99999"}, "at most 65535"),
        ({"listeners": ""}, "no listener for clients"),
        ({"listeners": "PLAINTEXT://:9092", "advertised.listeners": "X://h:1"}, "there is no listener X"),
        (
            {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            "cannot connect to 0.0.0.0",
        ),
        ({"log.dirs": "/a,/a"}, "occurs twice"),
        ({"log.retention.ms": "0"}, "retention of 0"),
        ({"log.roll.ms": "0"}, "log.roll.ms: Value must be at least 1"),
        ({"node.id": "2", "broker.id": "3"}, "they name the same thing"),
        ({"process.roles": "controller"}, "every moldau node is a broker"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replicas would drop out of sync"),
        ({"queued.max.request.bytes": "1000"}, "would never fit"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "not of the form address:count"),
        ({"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}, "(5) >"),
        ({"group.min.session.timeout.ms": "2000000"}, "> group.max.session.timeout.ms"),
        ({"log.cleaner.dedupe.buffer.size": "5"}, "at least 1 MiB"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(overrides: dict[str, str], words: str) -> None:
    found = mistakes_of(overrides=overrides)
    assert any(words in mistake.what for mistake in found), found


def test_broker_id_is_another_name_of_node_id() -> None:
    assert Settings.from_sources(overrides={"broker.id": "7"}).node_id == 7
    assert Settings.from_sources(overrides={"broker.id": "7", "node.id": "7"}).node_id == 7


# -- environment -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"), [("NUM_PARTITIONS", "num.partitions"), ("A__B_C", "a_b.c"), ("A___B_C", "a-b.c")]
)
def test_variables_are_named_as_in_apaches_image(name: str, key: str) -> None:
    assert key_of(name) == key


def test_bitnamis_prefix_works_too() -> None:
    assert Settings.from_sources(env={"KAFKA_CFG_NUM_PARTITIONS": "5"}).int("num.partitions") == 5


def test_special_variables_have_their_own_keys() -> None:
    settings = Settings.from_sources(env={"CLUSTER_ID": "abc", "KAFKA_CREATE_TOPICS": "a:3:1,b:1:1:compact"})
    assert settings.str("moldau.cluster.id") == "abc"
    assert settings.list("moldau.create.topics") == ("a:3:1", "b:1:1:compact")


def test_variables_of_start_scripts_and_kubernetes_are_left_alone() -> None:
    env = {
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_PORT": "tcp://10.0.0.7:9092",
        "KAFKA_SERVICE_HOST": "10.0.0.7",
        "KAFKA_SERVICE_PORT": "9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.7",
        "KAFKA_UI_SERVICE_PORT_HTTP": "8080",
        "HOME": "/root",
    }
    settings = Settings.from_sources(env=env)
    assert settings.notices == ()
    assert not settings.static


def test_a_kerberos_service_name_is_not_taken_for_kubernetes() -> None:
    assert Settings.from_sources(env={"KAFKA_SASL_KERBEROS_SERVICE_NAME": "k"}).str("sasl.kerberos.service.name") == "k"


def test_a_misspelt_variable_stops_and_a_strange_one_does_not() -> None:
    (mistake,) = mistakes_of(env={"KAFKA_NUM_PARTITONS": "3"})
    assert mistake == Mistake(
        "environment KAFKA_NUM_PARTITONS", "unknown setting num.partitons", "did you mean num.partitions?"
    )
    (notice,) = Settings.from_sources(env={"KAFKA_MY_APPLICATION_THING": "3"}).notices
    assert "KAFKA_MY_APPLICATION_THING is ignored" in notice.text


def test_listeners_follow_from_advertised_listeners_when_missing() -> None:
    env = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092"}
    settings = Settings.from_sources(env=env)
    assert settings.listeners() == (("PLAINTEXT", "0.0.0.0", 29092),)
    named = Settings.from_sources(env=env, overrides={"listeners": "PLAINTEXT://:1234"})
    assert named.listeners() == (("PLAINTEXT", "", 1234),)


# -- properties and TOML ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b "),
        ("a:b", "a", "b"),
        ("a b c", "a", "b c"),
        ("a", "a", ""),
        ("  a\\=b = c", "a=b", "c"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\\", "a", "b\\"),
        ("a=\\u0041\\t", "a", "A\t"),
        ("a=\\ud83d\\ude00", "a", "\U0001f600"),
        ("a=b#c", "a", "b#c"),
        ("a==b", "a", "=b"),
        ("a=b\\\r\n  c", "a", "bc"),
        ("a=b\\", "a", "b"),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, key: str, value: str) -> None:
    ((found_key, found_value, line),) = parse_properties(text)
    assert (found_key, found_value, line) == (key, value, 1)


def test_lines_are_counted_across_comments_and_continuations() -> None:
    entries = parse_properties("# x\n! y\n\na=1\\\n2\nb=3\n")
    assert [(entry.key, entry.value, entry.line) for entry in entries] == [("a", "12", 4), ("b", "3", 6)]


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(BadSyntax) as problem:
        parse_properties("a=1\nb=\\u12x4")
    assert problem.value.line == 2
    (mistake,) = mistakes_of(file=properties("a\\u=1"))
    assert mistake.where == "server.properties:1"


def test_a_byte_order_mark_is_not_part_of_the_first_key() -> None:
    assert Settings.from_sources(file=properties("\ufeffnum.partitions=3")).int("num.partitions") == 3
    assert Settings.from_sources(file=ConfigFile("m.toml", "\ufeff[num]\npartitions = 3")).int("num.partitions") == 3


def test_a_repeated_key_counts_last_and_is_told() -> None:
    settings = Settings.from_sources(file=properties("num.partitions=1\nnum.partitions=2"))
    assert settings.int("num.partitions") == 2
    assert "already set in line 1" in settings.notices[0].text


def test_toml_tables_dotted_and_quoted_keys_mean_the_same() -> None:
    text = 'num.partitions = 3\n"log.dir" = "/x"\n[log.retention]\nms = 5\n[auto.create]\ntopics.enable = false\n'
    entries = {entry.key: (entry.value, entry.line) for entry in parse_toml(text)}
    assert entries == {
        "num.partitions": ("3", 1),
        "log.dir": ("/x", 2),
        "log.retention.ms": ("5", 4),
        "auto.create.topics.enable": ("false", 6),
    }


def test_toml_lists_and_mistakes_have_lines() -> None:
    file = ConfigFile("moldau.toml", '[log]\ndirs = ["/a", "/b"]\n\n[num]\npartitons = 1\n')
    (mistake,) = mistakes_of(file=file)
    assert mistake.where == "moldau.toml:5"
    (mistake,) = mistakes_of(file=ConfigFile("moldau.toml", "a = \n"))
    assert mistake.where == "moldau.toml:1"


@pytest.mark.parametrize(
    ("name", "text", "toml"),
    [
        ("x.toml", "a=b", True),
        ("x.properties", "[a]", False),
        ("x.conf", "log.dirs=/a\n# [x]", False),
        ("x.conf", 'log.dirs = "/a"', True),
        ("x", "[log]\ndir = '/a'", True),
    ],
)
def test_the_language_of_a_file_is_told_from_name_or_content(name: str, text: str, toml: bool) -> None:
    assert ConfigFile(name, text).is_toml is toml


def test_durations_and_sizes_may_be_written_as_people_do() -> None:
    file = ConfigFile("server.properties", "log.retention.hours=7 days\nlog.segment.bytes=64MiB\n")
    settings = Settings.from_sources(file=file, env={}, overrides={"log.retention.check.interval.ms": "5m"})
    assert settings["log.retention.hours"] == 168
    assert settings["log.segment.bytes"] == 64 << 20
    assert settings["log.retention.check.interval.ms"] == 300_000
    with pytest.raises(SettingsError) as failure:
        Settings.from_sources(file=None, env={}, overrides={"log.retention.hours": "90m", "log.segment.bytes": "1h"})
    assert [mistake.what for mistake in failure.value.mistakes] == [
        "'90m' is not a whole number of hours, which log.retention.hours counts in",
        "'1h' is not a size such as 64MiB, 1.5GiB, 500kB or a number of bytes",
    ]
