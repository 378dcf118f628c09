"""The demo's second half: two streams of activity become a third, on Spark, right to the last cent."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from rich.progress import Progress

from moldau.cli.demo.pipeline_process import PipelineProcess
from moldau.cli.demo.reading import ORDINARY_CLIENT, read_as_anybody_would
from moldau.cli.demo.stage import DemoFailed, Stage, expect
from moldau.client import groups, lag
from moldau.client.cluster import Cluster
from moldau.examples.__main__ import copy
from moldau.examples.activity.expected import TOTALS
from moldau.examples.activity.generate import EXAMPLE
from moldau.examples.events import Event
from moldau.examples.sending import create_topics, send_all
from moldau.runtime.clock import WallClock

GROUP: Final = "pipeline.activity"
SECONDS_OF_INPUT: Final = 12
START_TIMEOUT_S: Final = 90.0
RESULT_TIMEOUT_S: Final = 90.0
LOOK_EVERY_S: Final = 0.5


@dataclass(slots=True)
class Watched:
    """What is seen while the pipeline runs."""

    totals: int = 0
    lag_records: int = 0
    lag_records_max: int = 0
    rows_per_second_max: float = 0.0


class SparkPart:
    def __init__(self, stage: Stage, count: int, seed: int) -> None:
        self.stage = stage
        self.events: list[Event] = EXAMPLE.generate(count, seed)
        self.right: list[dict[str, Any]] = EXAMPLE.expected(self.events)
        self.watched = Watched()
        folder = stage.folder / "activity"
        self.pipeline = PipelineProcess(copy("activity", folder), stage.broker.bootstrap, folder / "logs")

    def run(self) -> None:
        try:
            self.stage.talk(self.start)
            self.stage.talk(self.run_with_input)
            self.stage.talk(self.check_result)
            self.stage.talk(self.show_lag)
            self.stop()
        finally:
            self.pipeline.kill()

    async def start(self, cluster: Cluster) -> None:
        began = time.monotonic()
        await create_topics(cluster, EXAMPLE)
        self.pipeline.start()
        with self.stage.progress() as bar:
            task = bar.add_task("starting Spark", total=None, note="")
            while not self.pipeline.runs:
                self.pipeline.check()
                if time.monotonic() - began > START_TIMEOUT_S:
                    raise DemoFailed(f"Spark did not start within {START_TIMEOUT_S:.0f} s")
                bar.update(task)
                await asyncio.sleep(0.1)
        self.stage.done("started the pipeline: page views + purchases -> totals per minute, on Spark", began)

    async def run_with_input(self, cluster: Cluster) -> None:
        """Send, and watch the totals come out, until all that must come have come."""
        began = time.monotonic()
        with self.stage.progress() as bar:
            sending = bar.add_task("events sent     ", total=len(self.events), note="")
            published = bar.add_task("totals published", total=len(self.right), note="")
            sender = asyncio.create_task(
                send_all(
                    cluster,
                    EXAMPLE,
                    self.events,
                    rate=len(self.events) / SECONDS_OF_INPUT,
                    progress=lambda sent: bar.update(sending, completed=sent),
                )
            )
            try:
                await self.watch(cluster, sender, bar, published)
            finally:
                sender.cancel()
        took = time.monotonic() - began
        peak = f"up to {self.watched.rows_per_second_max:,.0f} rows/s, at most {self.watched.lag_records_max:,} behind"
        self.stage.done(f"sent {len(self.events):,} events while Spark read them ({peak})", began)
        self.stage.remember("events through Spark", f"{len(self.events):,} in {took:.1f} s")

    async def watch(self, cluster: Cluster, sender: asyncio.Task[None], bar: Progress, published: Any) -> None:
        deadline = time.monotonic() + SECONDS_OF_INPUT + RESULT_TIMEOUT_S
        while not (sender.done() and self.watched.totals >= len(self.right)):
            self.pipeline.check()
            if sender.done():
                sender.result()
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"{self.watched.totals} of {len(self.right)} totals came within {RESULT_TIMEOUT_S:.0f} s"
                )
            await self.look(cluster)
            note = f"{self.pipeline.rows_per_second:,.0f} rows/s, lag {self.watched.lag_records:,}"
            bar.update(published, completed=self.watched.totals, note=note)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, cluster: Cluster) -> None:
        seen = self.watched
        seen.totals = len(await read_as_anybody_would(cluster, TOTALS))
        seen.lag_records = sum(row.records for row in (await self.measure_lag(cluster)).values())
        seen.lag_records_max = max(seen.lag_records_max, seen.lag_records)
        seen.rows_per_second_max = max(seen.rows_per_second_max, self.pipeline.rows_per_second)

    async def check_result(self, cluster: Cluster) -> None:
        began = time.monotonic()
        rows = [json.loads(value) for value in await read_as_anybody_would(cluster, TOTALS)]
        rows.sort(key=lambda row: (row["minute"], row["category"]))
        expect(rows == self.right, "the totals equal those worked out without Spark, each exactly once")
        self.stage.done(f"read {len(rows):,} totals back with {ORDINARY_CLIENT}", began)
        self.stage.say("  [green]✔[/] they equal what plain Python makes of the same events; none missing, none twice")
        self.show_totals(rows)
        minutes = len({row["minute"] for row in rows})
        self.stage.remember("totals published exactly once", f"{len(rows):,} ({minutes} minutes), all right")

    def show_totals(self, rows: list[dict[str, Any]]) -> None:
        cents: Counter[str] = Counter()
        for row in rows:
            cents[row["category"]] += row["cents"]
        self.stage.say(self.stage.bars("category", "revenue", {name: amount / 100 for name, amount in cents.items()}))

    async def show_lag(self, cluster: Cluster) -> None:
        """The query's progress is an ordinary consumer group's."""
        began = time.monotonic()
        behind = await self.measure_lag(cluster)
        while any(row.records for row in behind.values()) or not behind:
            if time.monotonic() - began > RESULT_TIMEOUT_S:
                raise DemoFailed(f"group {GROUP} still shows a lag: {behind}")
            await asyncio.sleep(LOOK_EVERY_S)
            behind = await self.measure_lag(cluster)
        read = sum(row.committed for row in behind.values())
        expect(read == len(self.events), f"the group has read every event (it says {read:,})")
        self.stage.done(f"moldau group describe {GROUP}: {read:,} read, lag 0 on {len(behind)} partitions", began)
        self.stage.remember("lag in the consumer group", f"0, at most {self.watched.lag_records_max:,} on the way")

    async def measure_lag(self, cluster: Cluster) -> dict[Any, lag.PartitionLag]:
        committed = await groups.committed_offsets(cluster, GROUP)
        return await lag.measure(cluster, committed, WallClock().now_ms())

    def stop(self) -> None:
        began = time.monotonic()
        status = self.pipeline.stop()
        expect(status == 0, f"the pipeline stops cleanly when asked (status {status})")
        self.stage.done("stopped the pipeline; its checkpoint would go on from here", began)
