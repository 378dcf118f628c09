"""Signals end the demo, but never tear what must be whole."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from moldau.cli.demo.interrupts import Interrupts

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 10


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@contextmanager
def disposition(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def interrupted(work: Callable[[Interrupts], None], *, insist_every_s: float = 60.0) -> bool:
    """Whether `work` was, and did not only come to its end."""
    try:
        with Interrupts(insist_every_s) as interrupts:
            work(interrupts)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_interrupts_where_it_is_let_in(number: signal.Signals) -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.let_in():
            send(number)
            pytest.fail("went on")

    with disposition(number, signal.SIG_DFL):
        assert interrupted(work)


def test_ctrl_c_interrupts_also_where_it_was_ignored() -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.let_in():
            send(signal.SIGINT)
            pytest.fail("went on")

    with disposition(signal.SIGINT, signal.SIG_IGN):
        assert interrupted(work)


def test_nohup_is_respected() -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.let_in():
            send(signal.SIGHUP)

    with disposition(signal.SIGHUP, signal.SIG_IGN):
        assert not interrupted(work)


def test_what_is_held_is_done_whole_and_interrupted_afterwards() -> None:
    done = []

    def work(interrupts: Interrupts) -> None:
        with interrupts.let_in():
            with interrupts.held():
                send(signal.SIGTERM)
                done.append("all")
            pytest.fail("went on")

    assert interrupted(work)
    assert done == ["all"]


def test_cleaning_up_is_not_interrupted_by_more_signals() -> None:
    cleaned = []

    def work(interrupts: Interrupts) -> None:
        try:
            with interrupts.let_in():
                send(signal.SIGINT)
        finally:
            send(signal.SIGINT)
            send(signal.SIGTERM)
            cleaned.append("all")

    assert interrupted(work)
    assert cleaned == ["all"]


def test_a_signal_that_only_the_end_sees_still_counts() -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.let_in():
            pass
        send(signal.SIGTERM)

    assert interrupted(work)


def test_a_failure_that_the_signal_caused_is_an_interrupt() -> None:
    def work(interrupts: Interrupts) -> None:
        send(signal.SIGINT)
        raise ConnectionError("the broker was interrupted too")

    assert interrupted(work)


def test_an_interrupt_that_somebody_swallows_comes_again() -> None:
    def work(interrupts: Interrupts) -> None:
        with interrupts.let_in():
            with suppress(KeyboardInterrupt):  # as a finalizer does
                send(signal.SIGTERM)
            time.sleep(PATIENCE_S)
            pytest.fail("was not raised again")

    assert interrupted(work, insist_every_s=0.02)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_handlers_are_put_back() -> None:
    numbers = (*NUMBERS, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with suppress(KeyboardInterrupt), Interrupts():
        send(signal.SIGTERM)
    assert [signal.getsignal(number) for number in numbers] == before
