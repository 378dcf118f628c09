from __future__ import annotations

import pytest

from moldau.server.limits import Census, ServerLimits
from moldau.server.listeners import Endpoint, Listeners, ListenerSpec


def spec(
    name: str, host: str, port: int, protocol: str = "PLAINTEXT", told: tuple[str, int] | None = None
) -> ListenerSpec:
    advertised = None if told is None else Endpoint(name, *told)
    return ListenerSpec(Endpoint(name, host, port), protocol, advertised)


@pytest.mark.parametrize(
    ("protocol", "authenticates", "encrypted"),
    [
        ("PLAINTEXT", False, False),
        ("SSL", False, True),
        ("SASL_PLAINTEXT", True, False),
        ("SASL_SSL", True, True),
    ],
)
def test_what_a_protocol_means(protocol: str, authenticates: bool, encrypted: bool) -> None:
    one = spec("X", "", 1, protocol)
    assert (one.authenticates, one.encrypted) == (authenticates, encrypted)


def test_endpoints_are_written_as_kafka_writes_them() -> None:
    assert str(Endpoint("SSL", "::1", 9093)) == "SSL://[::1]:9093"
    assert str(Endpoint("INSIDE", "", 9094)) == "INSIDE://:9094"


def test_a_client_is_told_the_address_it_dialled() -> None:
    listeners = Listeners([spec("PLAINTEXT", "0.0.0.0", 9092)])
    assert listeners.advertised("PLAINTEXT", "172.17.0.2", 9092) == ("172.17.0.2", 9092)


def test_or_the_name_the_listener_was_bound_to() -> None:
    listeners = Listeners([spec("PLAINTEXT", "localhost", 0)])
    listeners.bound["PLAINTEXT"] = Endpoint("PLAINTEXT", "localhost", 40123)
    assert listeners.advertised("PLAINTEXT", "127.0.0.1", 40123) == ("localhost", 40123)


def test_or_what_is_advertised() -> None:
    listeners = Listeners([spec("PLAINTEXT", "", 9092, told=("kafka.example", 443)), spec("INSIDE", "", 9094)])
    assert listeners.advertised("PLAINTEXT", "10.0.0.1", 9092) == ("kafka.example", 443)
    assert listeners.advertised("INSIDE", "10.0.0.1", 9094) == ("10.0.0.1", 9094)
    assert listeners.registered() == [
        ("PLAINTEXT", "kafka.example", 443, "PLAINTEXT"),
        ("INSIDE", "localhost", 9094, "PLAINTEXT"),
    ]


def test_the_creation_rate_allows_a_second_at_once_and_then_spaces_out() -> None:
    census = Census(ServerLimits(connection_rate_max=10))
    delays = [census.delay_ms(5000.0) for _ in range(15)]
    assert delays[:11] == [0.0] * 11
    assert delays[11:] == [100.0, 200.0, 300.0, 400.0]
    assert Census(ServerLimits()).delay_ms(0.0) == 0.0
