"""`moldau pipeline ...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from moldau.cli import pipeline_run
from moldau.cli.errors import PlainError
from moldau.cli.local_broker import default_bootstrap
from moldau.cli.output import FORMAT, Deeds, print_facts, print_rows
from moldau.cli.pairs import parse_pairs
from moldau.cli.pipeline_tables import event_rows, query_rows, run_facts, run_rows
from moldau.cli.quantities import SECONDS
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.client.cluster import Cluster

FILE = click.argument("file", type=click.Path(path_type=Path))
SET = click.option(
    "--set", "variables", multiple=True, metavar="NAME=VALUE", help="A variable for ${NAME} in the file; repeatable."
)


@click.group(help="Run, check, list, show and stop pipelines on Spark.")
def pipeline() -> None:
    pass


@pipeline.command(help="Run a pipeline until it is stopped.")
@FILE
@SET
@click.option("--once", is_flag=True, help="Work through everything there is now, print a summary and end.")
@click.option(
    "--master", metavar="URL", help="A Spark cluster: spark://HOST:7077, yarn, k8s://...  [default: local[*]]"
)
@click.option("--remote", metavar="URL", help="A Spark Connect server: sc://HOST:15002")
@click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable.")
@click.option(
    "--progress",
    type=click.Choice(["auto", "live", "plain", "json", "none"]),
    default="auto",
    show_default=True,
    help="How to show progress; auto is live on a terminal.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics at /metrics.")
@click.option("--log-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the log goes.")
def run(
    file: Path,
    variables: tuple[str, ...],
    once: bool,
    master: str | None,
    remote: str | None,
    conf: tuple[str, ...],
    progress: str,
    metrics_port: int | None,
    log_dir: Path | None,
) -> None:
    if master is not None and remote is not None:
        raise click.UsageError("Give either --master or --remote.")
    options = pipeline_run.RunOptions(once, master, remote, parse_pairs(conf), progress, metrics_port, log_dir)
    sys.exit(pipeline_run.run(file, _variables(variables), options))


@pipeline.command(help="Look for mistakes in pipeline files, without running anything.")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True)
@SET
@click.option("--connect", is_flag=True, help="Also ask the brokers whether the topics are there.")
@click.option(
    "--deep", is_flag=True, help="Also start Spark and look up every column and type; calls the functions of steps."
)
@FORMAT
@TIMEOUT
def validate(
    files: tuple[Path, ...], variables: tuple[str, ...], connect: bool, deep: bool, format_: str, timeout_s: float
) -> None:
    failures = []
    deeds = Deeds(format_)
    for file in files:
        try:
            first, *notes = pipeline_run.validate(
                file, _variables(variables), connect=connect, deep=deep, timeout_s=timeout_s
            )
            told = [note.strip() for note in notes]
            deeds.tell("\n".join([first, *notes]), file=str(file), fine=True, mistakes=[], notes=told)
        except PlainError as error:
            mistakes = [{"place": place, "what": what} for place, what in error.facts]
            failures.append(error)
            if format_ != "table":
                deeds.tell("", file=str(file), fine=False, error=error.message, mistakes=mistakes, notes=[])
            elif len(files) > 1:
                error.show()
    deeds.close()
    if failures and format_ == "table" and len(files) == 1:
        raise failures[0]
    if failures:
        raise SystemExit(1)


@pipeline.command("list", help="List pipelines that run or ran, on any machine.")
@click.option("--all", "every", is_flag=True, help="Every run, not only the newest of each pipeline.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def list_(every: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    from moldau.pipelines.events import newest_runs
    from moldau.pipelines.journal import read_runs

    runs = list(with_cluster(bootstrap, read_runs, timeout_s=timeout_s).values())
    chosen = sorted(runs, key=lambda run: (run.pipeline, run.started_ms)) if every else newest_runs(runs)
    print_rows(run_rows(chosen, _now_ms()), format_, empty="No pipelines yet. Start one: moldau pipeline run FILE")


@pipeline.command(help="Show a pipeline's queries, progress and what happened.")
@click.argument("name")
@click.option("--run", "run_id", metavar="RUN", help="An older run; the newest is shown otherwise.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def show(name: str, run_id: str | None, format_: str, bootstrap: str, timeout_s: float) -> None:
    from moldau.pipelines.journal import read_runs

    found = _find(with_cluster(bootstrap, read_runs, timeout_s=timeout_s), name, run_id)[-1]
    facts = run_facts(found, _now_ms())
    if format_ != "table":
        print_facts({**facts, "queries": found.status.get("queries", []), "events": found.events}, format_)
        return
    print_facts(facts, "table")
    click.echo()
    print_rows(query_rows(found), "table", empty="No queries.")
    click.echo()
    print_rows(event_rows(found), "table", empty="Nothing happened yet.")


@pipeline.command(help="Ask a pipeline to finish its batch and stop, wherever it runs.")
@click.argument("name")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it has stopped.")
@FORMAT
@BOOTSTRAP
@click.option("--timeout", "timeout_s", type=SECONDS, default="60s", show_default=True, help="How long to wait.")
def stop(name: str, wait: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    import asyncio

    from moldau.pipelines import events, journal

    async def work(cluster: Cluster) -> None:
        runs = _find(await journal.read_runs(cluster), name, None)
        live = [run for run in runs if run.is_live(_now_ms())]
        if not live:
            raise _not_running(runs[-1])
        request = events.encode({"at_ms": _now_ms(), "by": pipeline_run.who()})
        await journal.write(cluster, [(events.stop_key(run.pipeline, run.run), request) for run in live])
        deadline = asyncio.get_running_loop().time() + timeout_s
        while wait and live:
            if asyncio.get_running_loop().time() > deadline:
                raise _did_not_stop(name, [run.run for run in live], timeout_s)
            await asyncio.sleep(0.5)
            known = await journal.read_runs(cluster)
            found = [known[name, run.run] for run in live if (name, run.run) in known]
            gone = [run.run for run in found if run.state(_now_ms()) == "lost"]
            if gone:
                raise _lost(name, gone)
            live = [run for run in found if run.is_live(_now_ms())]

    with_cluster(bootstrap, work, timeout_s=10.0)
    deeds = Deeds(format_)
    deeds.tell(f"{name} {'stopped' if wait else 'was asked to stop'}", pipeline=name, stopped=wait)
    deeds.close()


# -- inside ----------------------------------------------------------------------------------------------------------


def _variables(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """For a file that names no cluster, the one that the other commands take."""
    given = {**os.environ, **parse_pairs(pairs)}
    return given if given.get("MOLDAU_BOOTSTRAP") else {**given, "MOLDAU_BOOTSTRAP": default_bootstrap()}


def _now_ms() -> int:
    from moldau.runtime.clock import WallClock

    return WallClock().wall_ms()


def _find(runs: Mapping[tuple[str, str], Any], name: str, run_id: str | None) -> list[Any]:
    """The runs of a pipeline, oldest first."""
    import difflib

    found = sorted((run for run in runs.values() if run.pipeline == name), key=lambda run: run.started_ms)
    if run_id is not None:
        found = [run for run in found if run.run == run_id]
    if found:
        return found
    facts = [("pipeline", name if run_id is None else f"{name}, run {run_id}")]
    near = difflib.get_close_matches(name, sorted({run.pipeline for run in runs.values()}), n=1)
    if near and near[0] != name:
        facts.append(("did you mean", near[0]))
    raise PlainError("MD-3006", "unknown pipeline", facts=facts, fixes=["moldau pipeline list --all"])


def _not_running(last: Any) -> PlainError:
    return PlainError(
        "MD-3009",
        "the pipeline does not run",
        facts=[("pipeline", last.pipeline), ("last run", f"{last.run}, {last.state(_now_ms())}")],
        fixes=[f"moldau pipeline show {last.pipeline}"],
    )


def _lost(name: str, runs: list[str]) -> PlainError:
    return PlainError(
        "MD-3007",
        "nothing is heard of the pipeline any more",
        facts=[("pipeline", name), ("runs", ", ".join(runs))],
        fixes=["its process may have been killed, or its machine is away: moldau pipeline show " + name],
    )


def _did_not_stop(name: str, runs: list[str], timeout_s: float) -> PlainError:
    return PlainError(
        "MD-3007",
        "the pipeline did not stop in time",
        facts=[("pipeline", name), ("runs", ", ".join(runs)), ("waited", f"{timeout_s:g} s")],
        fixes=["wait longer: --timeout 5m", "or end its process on its machine: moldau pipeline show " + name],
    )
