"""What is wrong with peers, told in the log without letting them write it: each kind once per peer, few per minute."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

TOLD_MAX: Final = 1000
"""Kinds of complaints and peers that are remembered."""

INTERVAL_S: Final = 60.0
LINES_MAX: Final = 20
"""Lines in one interval, whoever comes with whatever."""

TEXT_MAX: Final = 200

_CHOSEN_BY_PEERS: Final = re.compile(r"""[0-9]+|'[^']*'|"[^"]*"|\([^)]*\)""")

log = logging.getLogger("moldau.server")


class Complaints:
    """One for the whole server."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._told: set[str] = set()
        self._began_s = now_s()
        self._lines = 0
        self._left_out = 0

    def tell(self, peer_host: str, text: str, level: int = logging.WARNING) -> None:
        """Say why a connection was closed, unless it was said of this peer before."""
        self._begin_anew()
        key = f"{peer_host} {kind_of(text)}"
        if key in self._told:
            return
        if self._lines >= LINES_MAX:
            self._left_out += 1
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told.add(key)
        self._lines += 1
        log.log(level, "closed a connection from %s: %s", peer_host, printable(text))

    def _begin_anew(self) -> None:
        now_s = self._now_s()
        if now_s - self._began_s < INTERVAL_S:
            return
        if self._left_out:
            log.warning("%d more complaints about connections were left out", self._left_out)
        self._began_s, self._lines, self._left_out = now_s, 0, 0


def kind_of(text: str) -> str:
    """The text without what a peer can vary in it."""
    return _CHOSEN_BY_PEERS.sub("#", text)[:TEXT_MAX]


def printable(text: str) -> str:
    """Text of a peer made safe for a log line."""
    return "".join(character if character.isprintable() else "?" for character in text[:TEXT_MAX])
