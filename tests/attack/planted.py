"""moldau with a bug, to prove that the campaign sees: `python -m tests.attack.planted BUG up ...`

From the pure source, whatever is installed: compiled modules cannot be changed from outside.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

EVERY = 50


def loses_acknowledged() -> None:
    """Acknowledges a record of the good client now and then that it never wrote."""
    from moldau.storage.log_state import LogState

    whole, count = LogState.write_stamped, 0

    def write_stamped(self, records, header, now_ms):  # type: ignore[no-untyped-def]
        nonlocal count
        count += self.topic == "good"
        if self.topic == "good" and count % EVERY == 0:
            return None
        return whole(self, records, header, now_ms)

    LogState.write_stamped = write_stamped  # type: ignore[method-assign]


def leaks_descriptors() -> None:
    """One for every connection that ends."""
    from moldau.server.connection import Connection

    whole = Connection.connection_lost

    def connection_lost(self, error):  # type: ignore[no-untyped-def]
        os.dup(0)
        whole(self, error)

    Connection.connection_lost = connection_lost  # type: ignore[method-assign]


def hides_warnings() -> None:
    """Recovers as ever, and tells nobody what it cut."""
    whole = logging.Logger.handle

    def handle(self, record):  # type: ignore[no-untyped-def]
        if record.levelno < logging.WARNING:
            whole(self, record)

    logging.Logger.handle = handle  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "loses-acknowledged": loses_acknowledged,
    "leaks-descriptors": leaks_descriptors,
    "hides-warnings": hides_warnings,
}


def program(bug: str) -> tuple[str, ...]:
    """For `BrokerProcess`."""
    return (sys.executable, str(Path(__file__)), bug)


def main() -> None:
    sys.path[0] = str(Path(__file__).parents[2] / "src")
    BUGS[sys.argv.pop(1)]()
    from moldau.cli.main import main as moldau

    moldau()


if __name__ == "__main__":
    main()
