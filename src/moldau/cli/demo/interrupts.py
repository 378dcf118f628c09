"""Ctrl-C and SIGTERM end the demo wherever it is, except in the few lines that must not be torn.

Neither of the usual ways is enough. asyncio's own (cancel the running task) waits for the task to pause, which a long
calculation does not do, and `wait_for` can lose it. A `KeyboardInterrupt` raised by a signal handler is lost when it
hits a finalizer or a weak reference's callback. So it is raised, and raised again until it has been noticed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

INSIST_EVERY_S: Final = 2.0


class Interrupts:
    """While entered, signals are remembered; only inside `let_in` they raise, and there not inside `held`."""

    def __init__(self, insist_every_s: float = INSIST_EVERY_S) -> None:
        self._insist_every_s = insist_every_s
        self.came = False
        self._raises = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        # SIGINT even where it is ignored, as shells start programs in the background: `moldau up` listens there too.
        self._take_over(signal.SIGINT)
        self._take_over(signal.SIGTERM)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup is a wish of its own
            self._take_over(signal.SIGHUP)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if signal.SIGALRM in self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.came and not isinstance(error, KeyboardInterrupt):
            # A terminal interrupts the broker too; that it does not answer then is no failure worth a trace.
            raise KeyboardInterrupt from None

    @contextmanager
    def let_in(self) -> Iterator[None]:
        self._raises = True
        try:
            self._raise_if_came()
            yield
        finally:
            self._raises = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """For what must be done whole, such as starting a process and remembering it."""
        raised, self._raises = self._raises, False
        try:
            yield
        finally:
            self._raises = raised
        self._raise_if_came()

    def _take_over(self, number: signal.Signals) -> None:
        self._before[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if not self.came:
            self.came = True
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._insist)
            signal.setitimer(signal.ITIMER_REAL, self._insist_every_s, self._insist_every_s)
        self._raise_if_came()

    def _insist(self, _number: int, _frame: FrameType | None) -> None:
        self._raise_if_came()

    def _raise_if_came(self) -> None:
        if self.came and self._raises:
            raise KeyboardInterrupt
