"""A proxy between clients and the broker that knows where frames begin, and holds some of them back.

Order within a connection stays as TCP keeps it. Across connections there is none, and that is where the trouble is: a
frame may sit here while its client, thinking it lost, repeats it over a new connection and goes on.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter

from moldau.wire.apis import ApiKey

DELAYED = frozenset(
    int(key)
    for key in (
        ApiKey.PRODUCE,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    )
)
DELAY_S = 0.03
LATE_S = 0.6


class DelayingProxy:
    """Runs in a thread of its own. `address` is what the broker must advertise; `upstream` where it really listens."""

    def __init__(self, seed: int, *, delayed: float = 0.2, late: float = 0.03, unanswered: float = 0.02) -> None:
        self.shares = (delayed, late, unanswered)
        self.rng = random.Random(seed)
        self.upstream: tuple[str, int] = ("", 0)
        self.address = ""
        self.counts: Counter[str] = Counter()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def be_kind(self) -> None:
        """From now on nothing is held back."""
        self.shares = (0.0, 0.0, 0.0)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.close()
            return
        answers = self._loop.create_task(self._pass_answers(from_broker, writer))
        self._keep(answers)
        try:
            while await self._pass_request(reader, to_broker, writer):
                pass
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            to_broker.close()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not writer.is_closing():  # the client may be gone while its late frames are still answered
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def _pass_request(
        self, reader: asyncio.StreamReader, to_broker: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> bool:
        """False when this connection has come to its end."""
        size = await reader.readexactly(4)
        frame = await reader.readexactly(int.from_bytes(size, "big"))
        fate = self._fate(int.from_bytes(frame[:2], "big"))
        if fate == "delayed":
            await asyncio.sleep(self.rng.uniform(0, DELAY_S))
        elif fate == "late":  # the client sees its connection die; the frame arrives when it has gone on
            client.close()
            await asyncio.sleep(self.rng.uniform(0, LATE_S))
        to_broker.write(size + frame)
        await to_broker.drain()
        if fate == "unanswered":
            client.close()
        if fate in ("late", "unanswered"):
            await asyncio.sleep(0.2)  # the broker must have read it before the connection goes
            return False
        return True

    def _fate(self, key: int) -> str:
        if key not in DELAYED:
            return "passed"
        roll, delayed, late, unanswered = self.rng.random(), *self.shares
        fate = "passed"
        if roll < late:
            fate = "late"
        elif roll < late + unanswered:
            fate = "unanswered"
        elif roll < late + unanswered + delayed:
            fate = "delayed"
        self.counts[f"{ApiKey(key).name} {fate}"] += 1
        return fate
