"""The demo's second half: two streams of activity become a third, on Spark, right to the last cent."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.progress import Progress, TaskID
from rich.table import Table

from moldau.cli.demo.pipeline_process import PipelineProcess
from moldau.cli.demo.reading import ORDINARY_CLIENT, read_as_anybody_would, read_topic
from moldau.cli.demo.stage import DemoFailed, Stage, expect
from moldau.client import groups, lag
from moldau.client.cluster import Cluster
from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers
from moldau.examples.__main__ import copy
from moldau.examples.activity.expected import TOTALS
from moldau.examples.activity.generate import EXAMPLE
from moldau.examples.events import Event
from moldau.examples.sending import create_topics, send_all
from moldau.model.errors import RETRIABLE
from moldau.model.failures import PeerGone
from moldau.model.ids import TopicPartition
from moldau.runtime.clock import WallClock

GROUP: Final = "pipeline.activity"
FIRST_EVENTS: Final = 2_000
SECONDS_OF_INPUT: Final = 10
START_TIMEOUT_S: Final = 180.0
RESULT_TIMEOUT_S: Final = 180.0
LOOK_EVERY_S: Final = 0.5


@dataclass(slots=True)
class Watched:
    """What is seen while the pipeline runs."""

    sent: int = 0
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
        self.half_sent = asyncio.Event()
        folder = stage.folder / "activity"
        self.pipeline = PipelineProcess(copy("activity", folder), stage.broker.bootstrap, folder)

    def run(self) -> None:
        self.stage.at_end(self.pipeline.kill)
        self.stage.talk(self.start)
        self.stage.talk(self.run_with_input)
        self.stage.talk(self.check_result)
        self.stage.talk(self.show_lag)
        self.stop()

    async def start(self, cluster: Cluster) -> None:
        """Until the first events are through: from then on Spark is warm."""
        began = time.monotonic()
        await create_topics(cluster, EXAMPLE)
        with self.stage.interrupts.held():
            self.pipeline.start()
        await send_all(cluster, EXAMPLE, self.events[:FIRST_EVENTS])
        with self.stage.progress() as bar:
            bar.add_task("starting Spark", total=None, note="about 15 s on two idle cores")
            while not self.pipeline.batches:
                self.pipeline.check()
                if time.monotonic() - began > START_TIMEOUT_S:
                    raise DemoFailed(f"Spark did not start within {START_TIMEOUT_S:.0f} s")
                await asyncio.sleep(0.1)
        self.stage.done("started a pipeline on Spark: page views + purchases -> totals per minute", began)

    async def run_with_input(self, cluster: Cluster) -> None:
        """Send, kill the broker on the way, and watch until all totals that must come have come."""
        began = time.monotonic()
        rest = self.events[FIRST_EVENTS:]
        with self.stage.progress() as bar:
            tasks = (
                bar.add_task("events sent     ", total=len(self.events), note=""),
                bar.add_task("totals published", total=len(self.right), note=""),
            )
            work = [asyncio.create_task(self.send(cluster, rest)), asyncio.create_task(self.kill_broker())]
            try:
                await self.watch(cluster, work, bar, tasks)
            finally:
                for task in work:
                    task.cancel()
        seen = self.watched
        self.stage.done(
            f"sent {len(self.events):,} events while the pipeline ran, and killed the broker on the way", began
        )
        peak = f"{seen.rows_per_second_max:,.0f} rows/s, at most {seen.lag_records_max:,} behind"
        self.stage.remember("events through Spark", f"{len(self.events):,}; {peak}")

    async def send(self, cluster: Cluster, events: Sequence[Event]) -> None:
        def progress(sent: int) -> None:
            self.watched.sent = FIRST_EVENTS + sent
            if sent >= len(events) // 2:
                self.half_sent.set()

        await send_all(cluster, EXAMPLE, events, rate=len(events) / SECONDS_OF_INPUT, progress=progress)

    async def kill_broker(self) -> None:
        """In the middle of everything: generator, Spark's source and its transactions must all get over it."""
        await self.half_sent.wait()
        self.stage.broker.kill()
        self.stage.launch_broker()  # here and not in the thread, which may outlive an interrupted demo's last look
        await asyncio.to_thread(self.stage.broker.wait_until_ready)

    async def watch(
        self, cluster: Cluster, work: Sequence[asyncio.Task[None]], bar: Progress, tasks: tuple[TaskID, TaskID]
    ) -> None:
        deadline = time.monotonic() + SECONDS_OF_INPUT + RESULT_TIMEOUT_S
        while not (all(task.done() for task in work) and self.watched.totals >= len(self.right)):
            self.pipeline.check()
            for task in work:
                if task.done():
                    task.result()
            if time.monotonic() > deadline:
                raise DemoFailed(f"only {self.watched.totals} of {len(self.right)} totals came in time")
            await self.look(cluster)
            self.show(bar, tasks)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, cluster: Cluster) -> None:
        seen = self.watched
        seen.rows_per_second_max = max(seen.rows_per_second_max, self.pipeline.rows_per_second)
        try:
            seen.totals = len(await read_topic(cluster, TOTALS))
            seen.lag_records = sum(row.records for row in (await self.measure_lag(cluster)).values())
        except (PeerGone, NoBrokerAnswers, AnswerTimedOut, BrokerRefused) as failure:
            # The broker is dead for a moment, and that is part of the show.
            if isinstance(failure, BrokerRefused) and failure.code not in RETRIABLE:
                raise
            return
        seen.lag_records_max = max(seen.lag_records_max, seen.lag_records)

    def show(self, bar: Progress, tasks: tuple[TaskID, TaskID]) -> None:
        seen = self.watched
        facts = f"{self.pipeline.rows_per_second:,.0f} rows/s, lag {seen.lag_records:,}"
        bar.update(tasks[0], completed=seen.sent)
        bar.update(tasks[1], completed=seen.totals, note=facts)
        self.stage.plain_progress(f"{seen.sent:,} sent, {seen.totals} of {len(self.right)} totals, {facts}")

    async def check_result(self, cluster: Cluster) -> None:
        began = time.monotonic()
        rows = [json.loads(value) for value in await read_as_anybody_would(cluster, TOTALS)]
        rows.sort(key=lambda row: (row["minute"], row["category"]))
        expect(rows == self.right, "the totals equal those worked out without Spark, each exactly once")
        self.stage.done(f"read {len(rows):,} totals back with {ORDINARY_CLIENT}", began)
        self.stage.say("  [green]✔[/] they equal what plain Python makes of the same events; none missing, none twice")
        self.show_totals(rows)
        minutes = len({row["minute"] for row in rows})
        restarts = self.pipeline.restarts
        outcome = f"the query was restarted {restarts} times" if restarts else "the query went on without a restart"
        self.stage.remember("broker killed under Spark", outcome)
        self.stage.remember("totals published exactly once", f"{len(rows):,}, for {minutes} minutes, all right")

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
        read = sum(row.committed or 0 for row in behind.values())
        expect(read == len(self.events), f"the group has read every event (it says {read:,})")
        self.stage.done(f"moldau group describe {GROUP} shows what the pipeline has read, and no lag", began)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("    topic", "partition", "committed", "end", "lag"):
            table.add_column(title, justify="left" if title.endswith("topic") else "right")
        for partition, row in sorted(behind.items()):
            facts = (partition.partition, row.committed or 0, row.end, row.records)
            table.add_row(f"    {partition.topic}", *(f"{fact:,}" for fact in facts))
        self.stage.say(table)

    async def measure_lag(self, cluster: Cluster) -> dict[TopicPartition, lag.PartitionLag]:
        committed = await groups.committed_offsets(cluster, GROUP)
        return await lag.measure(cluster, committed, WallClock().wall_ms())

    def stop(self) -> None:
        began = time.monotonic()
        status = self.pipeline.stop()
        expect(status == 0, f"the pipeline stops cleanly when asked (status {status})")
        self.stage.done("stopped the pipeline; it would go on from its checkpoint", began)
