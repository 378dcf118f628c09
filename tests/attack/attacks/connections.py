"""Rude peers that hardly say anything: frames that never end, connections that come, go and stay."""

from __future__ import annotations

import random
import socket
import struct
import time

from moldau.model.limits import REQUEST_BYTES_MAX
from tests.attack.attacks.base import Attack, abort
from tests.fault.fuzz_frames import Fuzzer
from tests.fault.loop_holds import PROBE

PRODUCE_HEAD = struct.pack(">hhih", 0, 9, 1, 4) + b"drip\0"
DRIPPING = 5
DRIP_EVERY_S = 0.5
DRIP_S = 5.0
IDLE = 650
HALF_OPEN = 150
FLOOD = 500
HOLD_S = 1.5
GARBAGE_FRAMES = 1_500


class Garbage(Attack):
    name, family = "garbage frames", "rudeness"

    def prepare(self, rng: random.Random) -> None:
        host, port = self.stage.address
        self.fuzzer = Fuzzer(host, port, self.stage.broker.pid, seed=rng.getrandbits(32), warmup=0)
        self.unanswered: list[str] = []

    def round(self, rng: random.Random) -> None:
        self.fuzzer.rng = rng
        # Its own bounds are for a broker that does nothing else; here only whether its probe is answered.
        self.fuzzer.outcome.problems.clear()
        self.fuzzer.run(self.fuzzer.outcome.frames + GARBAGE_FRAMES)
        self.unanswered += [problem for problem in self.fuzzer.outcome.problems if "no answer" in problem]

    def calm(self) -> None:
        for slot in self.fuzzer.slots:
            self.fuzzer._close(slot)
        self.fuzzer.probe.close()
        self.fuzzer.selector.close()
        self.stage.delete_strangers()

    def check(self) -> list[str]:
        return self.unanswered


class AnnouncedFrames(Attack):
    """A few sockets announce the largest request there is and send a byte now and then. The good client's large records
    need the same budget."""

    name, family = "huge frames, byte by byte", "rudeness"

    def round(self, rng: random.Random) -> None:
        for _ in range(DRIPPING):
            sock = self.connect()
            size = REQUEST_BYTES_MAX - rng.randrange(1000)
            sock.sendall(struct.pack(">i", size) + PRODUCE_HEAD + rng.randbytes(rng.choice((0, 100, 70_000))))
        end = time.monotonic() + DRIP_S
        while time.monotonic() < end:
            time.sleep(DRIP_EVERY_S)
            for sock in self.sockets:
                drip(sock)
        self.close_all()


def drip(sock: socket.socket) -> None:
    try:
        sock.sendall(b"x")
    except OSError:
        return  # it was thrown out, rightly


class HalfOpen(Attack):
    """Half a size, half a header, half a request; then an end or a reset."""

    name, family = "half-open connections", "rudeness"

    def round(self, rng: random.Random) -> None:
        for _ in range(HALF_OPEN):
            self.connect().sendall(PROBE[: rng.randrange(1, len(PROBE))])
        time.sleep(HOLD_S)
        for sock in self.sockets:
            abort(sock) if rng.random() < 0.5 else sock.close()
        self.sockets.clear()


class IdleConnections(Attack):
    name, family = f"{IDLE} idle connections", "rudeness"

    def round(self, rng: random.Random) -> None:
        for _ in range(IDLE):
            self.connect()
        time.sleep(HOLD_S)
        self.close_all()


class ConnectionFlood(Attack):
    name, family = "connection flood", "rudeness"

    def round(self, rng: random.Random) -> None:
        for _ in range(FLOOD):
            sock = self.connect()
            how = rng.randrange(3)
            if how == 0:
                sock.sendall(PROBE)
            abort(sock) if how < 2 else sock.close()
        self.sockets.clear()


ATTACKS = (Garbage, AnnouncedFrames, HalfOpen, IdleConnections, ConnectionFlood)
