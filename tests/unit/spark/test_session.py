"""The bridge between Spark's callbacks and the client: one loop, patience with what goes away, clear ends."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client.failures import AnswerTimedOut, BrokerRefused
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone, WireError
from moldau.spark import session
from moldau.spark.session import BrokersUnreachable, Contact, call, goes_away, with_cluster
from moldau.spark.sink.commit import abort_batch


@pytest.fixture(autouse=True)
def _closed_afterwards() -> Iterator[None]:
    yield
    session.close_all()


@pytest.fixture
def fake_cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    cluster = SimpleNamespace(topics={"t": 1})

    async def opened(_: Contact) -> Any:
        return cluster

    monkeypatch.setattr(session, "open_cluster", opened)
    return cluster


async def _where() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


def test_all_calls_share_one_thread() -> None:
    assert call(_where()) == call(_where()) == (os.getpid(), "moldau-spark")


def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    call(_where())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        pid, _ = call(_where())
        os.write(writing, b"ok" if pid == os.getpid() else b"no")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 2) == b"ok"
    os.close(reading)
    os.close(writing)


def test_an_unexpected_failure_keeps_its_stack() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError) as failure:
        call(fails())
    assert "fails" in {entry.name for entry in failure.traceback}


def test_nobody_answers() -> None:
    contact = Contact.of("127.0.0.1:1", {"request.timeout.ms": "300"})
    began = time.monotonic()
    with pytest.raises(
        BrokersUnreachable, match=r"no broker answers at 127\.0\.0\.1:1 \(tried for 0\.3 s\)"
    ) as failure:
        with_cluster(contact, lambda cluster: cluster.refresh(None))
    assert time.monotonic() - began < 14  # not the default
    assert "kafka.bootstrap.servers" in str(failure.value)


def test_settings_make_a_contact() -> None:
    found = Contact.of("a:1", {"request.timeout.ms": "2000", "default.api.timeout.ms": "9000", "client.id": "me"})
    assert found == Contact("a:1", "me", request_timeout_s=2, api_timeout_s=9)
    assert found.first_contact_s == 2
    assert Contact.of("a:1", {}) == Contact("a:1", request_timeout_s=30, api_timeout_s=60)


def test_an_address_that_never_answers_is_told_before_ten_seconds() -> None:
    """What Spark takes to start its processes comes on top."""
    assert Contact.of("a:1", {}).first_contact_s <= 8


def test_aborting_does_not_wait_as_long_again(caplog: pytest.LogCaptureFixture) -> None:
    """The tasks of the write have waited already, and the user waits for their reason."""
    abort_batch(Contact("127.0.0.1:1", first_contact_s=600), "sink", "run", [])
    assert "(tried for 1 s)" in caplog.text


def test_contacts_that_differ_in_patience_alone_share_a_cluster() -> None:
    hasty = replace(Contact.of("a:1", {}), first_contact_s=1)
    assert hasty == Contact.of("a:1", {})
    assert hash(hasty) == hash(Contact.of("a:1", {}))


def test_what_goes_away_is_tried_again(fake_cluster: Any) -> None:
    failures: list[Exception] = [PeerGone("x"), BrokerRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    async def work(cluster: Any) -> str:
        if failures:
            raise failures.pop(0)
        assert cluster.topics == {}, "what was known about leaders is forgotten"
        return "done"

    assert with_cluster(Contact("a:1"), work) == "done"


def test_patience_ends(fake_cluster: Any) -> None:
    async def work(_: Any) -> None:
        raise PeerGone("connection lost")

    with pytest.raises(BrokersUnreachable, match=r"the look did not succeed within 0\.2 s at a:1: connection lost"):
        with_cluster(Contact("a:1", api_timeout_s=0.2), work, what="the look")


def test_what_does_not_go_away_is_told_at_once(fake_cluster: Any) -> None:
    tries = []

    async def work(_: Any) -> None:
        tries.append(1)
        await asyncio.sleep(0)
        raise BrokerRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, subject="t")

    with pytest.raises(BrokerRefused, match="TOPIC_AUTHORIZATION_FAILED"):
        with_cluster(Contact("a:1"), work)
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (PeerGone("x"), True),
        (AnswerTimedOut("a:1", "Metadata", 1), True),
        (BrokerRefused(ErrorCode.LEADER_NOT_AVAILABLE), True),
        (BrokerRefused(ErrorCode.BROKER_NOT_AVAILABLE), True),
        (BrokerRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), False),
        (BrokerRefused(ErrorCode.INVALID_REQUEST), False),
        (WireError("x"), False),
    ],
)
def test_which_failures_end_by_themselves(failure: Exception, expected: bool) -> None:
    assert goes_away(failure) is expected
