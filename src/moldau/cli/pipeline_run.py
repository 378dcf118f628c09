"""What `moldau pipeline run` and `validate` do, from the file to the exit status."""

from __future__ import annotations

import getpass
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moldau.cli.errors import PlainError
from moldau.cli.output import counted
from moldau.cli.session import with_cluster
from moldau.pipelines.failures import PipelineFailed
from moldau.pipelines.load import load
from moldau.pipelines.places import Mistake, Mistakes
from moldau.pipelines.spec import ConsoleTarget, Pipeline

if TYPE_CHECKING:
    from moldau.pipelines.run import Outcome, Runner

INSTALL: Final = 'pip install "moldau[spark]"        (adds pyspark 4.x, about 500 MB to download; needs Java 17+)'


@dataclass(frozen=True, slots=True)
class RunOptions:
    once: bool = False
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    progress: str = "auto"
    metrics_port: int | None = None
    log_dir: Path | None = None


# -- validate --------------------------------------------------------------------------------------------------------


def validate(
    file: Path, variables: Mapping[str, str], *, connect: bool, deep: bool, timeout_s: float
) -> Iterator[str]:  # fmt: skip
    """Lines that say what was checked; `PlainError` with every mistake when there are any."""
    from moldau.pipelines import sql_check
    from moldau.spark.java import JavaUnusable, find_java

    mistakes = Mistakes()
    pipeline = load_file(file, variables, mistakes)
    skipped = []
    if pipeline is not None and sql_check.spark_is_installed():
        try:
            find_java()
            sql_check.check_sql(pipeline, mistakes)
        except JavaUnusable:
            skipped.append("SQL was not parsed: no usable Java (moldau doctor)")
        sql_check.check_options(pipeline, mistakes)  # last: what Spark's parser told has the better place
    elif pipeline is not None:
        skipped.append(f"SQL was not parsed: Spark is not installed ({INSTALL.split('  ')[0]})")
    if pipeline is not None and connect:
        check_brokers(pipeline, mistakes, timeout_s)
    refuse(mistakes, file)
    assert pipeline is not None
    if deep:
        refuse(_resolve(pipeline), file)
    yield f"{file}: {pipeline.name} is fine: {_summary(pipeline)}"
    yield from (f"  {line}" for line in skipped)


def _resolve(pipeline: Pipeline) -> Mistakes:
    """What only a session can judge: columns, types, output modes of sinks. Leaves nothing behind."""
    from moldau.pipelines.log_files import log_to
    from moldau.pipelines.queries import resolve_all
    from moldau.pipelines.session import Where, open_session

    _need_spark(RunOptions())
    where = Where("local[1]")
    with tempfile.TemporaryDirectory(prefix="moldau-validate-") as folder:
        log = Path(folder, "log")
        log_to(log)
        scratch = replace(pipeline, checkpoint=folder)
        spark = _open(lambda: open_session(scratch, where, log), where, log)
        try:
            return resolve_all(spark, scratch)
        finally:
            spark.stop()


def load_file(file: Path, variables: Mapping[str, str], mistakes: Mistakes) -> Pipeline | None:
    if file.suffix != ".py":
        try:
            import yaml  # noqa: F401
        except ImportError:
            # A file can be read and checked without Spark, so nobody needs all of it for this.
            raise PlainError(
                "MD-3001", "pipeline files need pyyaml", facts=[("file", str(file))], fixes=["pip install pyyaml"]
            ) from None
    return load(file, variables, mistakes)


def refuse(mistakes: Mistakes, file: Path) -> None:
    if mistakes:
        raise mistaken(sorted(mistakes.found), file)


def mistaken(found: list[Mistake], file: Path) -> PlainError:
    count = "a mistake" if len(found) == 1 else f"{len(found)} mistakes"
    facts = [(str(each.place), each.what + (f" ({each.hint})" if each.hint else "")) for each in found]
    return PlainError("MD-3004", f"the pipeline file has {count}", facts=facts)


def check_brokers(pipeline: Pipeline, mistakes: Mistakes, timeout_s: float) -> None:
    from moldau.pipelines.broker_check import check_topics, clusters

    for bootstrap in clusters(pipeline):
        with_cluster(bootstrap, lambda cluster: check_topics(cluster, pipeline, mistakes), timeout_s=timeout_s)


def _summary(pipeline: Pipeline) -> str:
    counts = (("source", len(pipeline.sources)), ("step", len(pipeline.steps)), ("sink", len(pipeline.sinks)))
    return ", ".join(f"{count} {name}{'s' if count != 1 else ''}" for name, count in counts)


# -- run -------------------------------------------------------------------------------------------------------------


def run(file: Path, variables: Mapping[str, str], options: RunOptions) -> int:
    """The exit status. Known failures come as `PlainError`."""
    from moldau.pipelines.checkpoint_owner import claim_checkpoint
    from moldau.pipelines.session import Where

    _need_spark(options)
    mistakes = Mistakes()
    pipeline = load_file(file, variables, mistakes)
    if pipeline is not None:
        from moldau.pipelines.packages import check_packages
        from moldau.pipelines.sql_check import check_options

        check_options(pipeline, mistakes)
        if options.remote is None:  # a Connect server has its own packages
            check_packages(pipeline, mistakes)
    refuse(mistakes, file)
    assert pipeline is not None
    check_brokers(pipeline, mistakes, 15.0)
    if Where(options.master, options.remote).embedded:  # elsewhere a path may mean another machine's disk
        claim_checkpoint(pipeline, mistakes)
    refuse(mistakes, file)
    if pipeline.engine == "declarative":
        from moldau.cli.pipeline_declarative import run_declarative

        return run_declarative(pipeline, variables, options)
    return _run_streaming(pipeline, options)


def _run_streaming(pipeline: Pipeline, options: RunOptions) -> int:
    from moldau.pipelines.log_files import log_to, new_log
    from moldau.pipelines.queries import resolve_all
    from moldau.pipelines.run import Runner
    from moldau.pipelines.session import Where, open_session

    run_id = new_run_id()
    log = new_log(pipeline.name, run_id, pipeline.file, options.log_dir)
    log_to(log)
    where = Where(options.master, options.remote, options.conf)
    stop_asked: list[int] = []
    with _signals(lambda number: stop_asked.append(number)):
        spark = _open(lambda: open_session(pipeline, where, log), where, log)
        screen = _screen(pipeline, options)
        runner = Runner(
            spark, pipeline, run_id, screen, once=options.once, where=str(where), host=socket.gethostname()
        )  # fmt: skip
        try:
            refuse(resolve_all(spark, pipeline), pipeline.file)
            with _signals(lambda number: runner.request_stop()), _metrics(runner, options.metrics_port):
                if stop_asked:
                    runner.request_stop()
                outcome = runner.run()
        finally:
            screen.close()
            with suppress(Exception):
                spark.stop()
    conclude(pipeline, outcome, options)
    if outcome.failure is not None:
        raise failed(outcome.failure, log)
    return 0


def new_run_id() -> str:
    import datetime

    return f"{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S}-{uuid.uuid4().hex[:4]}"


def who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def failed(failure: PipelineFailed, log: Path) -> PlainError:
    facts = [("where", str(failure.place))] if failure.place is not None else []
    facts.append(("why", failure.what))
    if failure.hint:
        facts.append(("hint", failure.hint))
    facts.append(("log", str(log)))
    return PlainError("MD-3005", "the pipeline failed", facts=facts)


def _need_spark(options: RunOptions) -> None:
    from moldau.pipelines.sql_check import spark_is_installed
    from moldau.spark.java import JavaUnusable, find_java

    if not spark_is_installed():
        raise PlainError("MD-3001", "Spark support is not installed", facts=[("missing", "pyspark")], fixes=[INSTALL])
    if options.remote is not None:
        return  # the server has its own Java
    try:
        find_java()
    except JavaUnusable as unusable:
        raise PlainError(
            "MD-3003", unusable.what, facts=[("found", unusable.found)], fixes=unusable.fixes
        ) from None  # fmt: skip


def _open(start: Any, where: Any, log: Path) -> Any:
    try:
        return start()
    except Exception as error:
        from moldau.pipelines.failures import explain

        facts = [("where", str(where)), ("why", explain(str(error)).sentence), ("log", str(log))]
        fixes = ["is the server running? --remote sc://HOST:15002"] if where.remote else ["moldau doctor"]
        raise PlainError("MD-3008", "Spark did not start", facts=facts, fixes=fixes) from error


def _screen(pipeline: Pipeline, options: RunOptions) -> Any:
    from moldau.cli.pipeline_screen import screen

    prints = any(isinstance(sink.target, ConsoleTarget) for sink in pipeline.sinks)
    return screen(options.progress, is_terminal=sys.stdout.isatty(), prints_itself=prints)


def conclude(pipeline: Pipeline, outcome: Outcome, options: RunOptions) -> None:
    """The last word on every query, however short the run was."""
    from moldau.cli.pipeline_screen import line, progress_json

    if options.progress == "json":
        click.echo(progress_json(outcome.state, outcome.queries))
    if options.progress in ("json", "none"):
        return
    for facts in outcome.queries:
        click.echo(line(facts))
    if outcome.failure is None:
        rows = sum(facts.input_rows for facts in outcome.queries)
        click.echo(f"{pipeline.name} {outcome.state} after {outcome.seconds:.1f} s, {counted(rows, 'row')} read")


@contextmanager
def _metrics(runner: Runner, port: int | None) -> Iterator[None]:
    if port is None:
        yield
        return
    from moldau.pipelines.metrics import MetricsServer, render

    try:
        server = MetricsServer(port, lambda: render(runner.pipeline.name, runner.state, runner.facts()))
    except OSError as error:
        raise PlainError(
            "MD-1002", "the port is in use", facts=[("metrics", str(port)), ("why", str(error.strerror))],
            fixes=["choose another --metrics-port"],
        ) from error  # fmt: skip
    click.echo(f"metrics at http://localhost:{server.port}/metrics", err=True)
    try:
        yield
    finally:
        server.close()


@contextmanager
def _signals(handle: Any) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask for a graceful end; a second one ends at once."""
    pressed: list[int] = []

    def on_signal(number: int, _frame: Any) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            raise KeyboardInterrupt
        handle(number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
