"""`moldau doctor`: look at the environment, the system, the settings and a running cluster, and say what to mend.

Exit status 0 when nothing has to be mended (warnings alone do not fail a script, unless it says --strict), 1 when there
are errors, 2 when the command itself was wrong.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from moldau.cli import run_file
from moldau.cli.local_broker import DEFAULT_DATA_DIR, default_bootstrap
from moldau.cli.output import FORMAT, counted, print_document
from moldau.cli.session import BOOTSTRAP

if TYPE_CHECKING:
    from moldau.node.damage_list import Damage

OK: Final = "ok"
WARNING: Final = "warning"
ERROR: Final = "error"
MARKS: Final = {OK: ("✔", "green"), WARNING: ("!", "yellow"), ERROR: ("✘", "red")}
OPEN_FILES_WANTED: Final = 4096
FREE_SHARE_WANTED: Final = 0.10
SHOWN_MAX: Final = 10
"""Findings about logs that are shown one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    area: str
    state: str
    text: str
    fix: str = ""


@click.command(
    help="Check this machine, the settings and a running cluster.", epilog="Exit status 1 if there are errors."
)
@click.option("--data-dir", default=DEFAULT_DATA_DIR, show_default=True, type=click.Path(path_type=Path))
@click.option("--config", "config_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--strict", is_flag=True, help="Exit with status 1 for warnings too.")
@FORMAT
@BOOTSTRAP
def doctor(data_dir: Path, config_file: Path | None, strict: bool, format_: str, bootstrap: str) -> None:
    running = run_file.read(data_dir)
    findings = [
        *check_environment(),
        *check_system(data_dir),
        *check_spark(),
        *check_settings(config_file),
        *check_cluster(running.bootstrap if running is not None and bootstrap == default_bootstrap() else bootstrap),
        *(() if running is None else check_loop(data_dir)),
        *check_logs(data_dir),
        *(() if running is None else check_clock(data_dir)),
    ]
    if format_ == "table":
        _print(findings)
    else:
        print_document([asdict(finding) for finding in findings], format_)
    bad = (ERROR, WARNING) if strict else (ERROR,)
    raise SystemExit(1 if any(finding.state in bad for finding in findings) else 0)


def check_environment() -> Iterator[Finding]:
    from moldau.cli.version import hot_path_is_compiled

    area = "environment"
    yield Finding(area, OK, f"Python {platform.python_version()}")
    if hot_path_is_compiled():
        yield Finding(area, OK, "hot modules compiled")
    else:
        fix = "install a C compiler, then install moldau again"
        yield Finding(area, WARNING, "hot modules run uncompiled, about five times slower", fix)
    if find_spec("uvloop") is None and sys.platform != "win32":
        yield Finding(area, WARNING, "uvloop is missing", 'pip install "moldau[fast]"')
    else:
        yield Finding(area, OK, "uvloop")


def check_system(data_dir: Path) -> Iterator[Finding]:
    area = "system"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES_WANTED:
        yield Finding(area, WARNING, f"only {soft} open files allowed (hard limit {hard})", "ulimit -n 65536")
    else:
        yield Finding(area, OK, f"open files {soft}")
    place = data_dir if data_dir.exists() else Path.cwd()
    usage = shutil.disk_usage(place)
    share = usage.free / usage.total
    text = f"{share:.0%} of the disk free under {place} ({usage.free / 2**30:,.1f} GiB)"
    if share < FREE_SHARE_WANTED:
        yield Finding(area, WARNING, text, "free some space, or lower retention: moldau config explain retention.ms")
    else:
        yield Finding(area, OK, text)
    if data_dir.exists() and not os.access(data_dir, os.W_OK):
        yield Finding(area, ERROR, f"{data_dir} is not writable", "chown it to you, or use another --data-dir")


def check_spark() -> Iterator[Finding]:
    """Nothing to say where Spark was never asked for."""
    from importlib.metadata import version

    from moldau.spark.java import INSTALL, JavaUnusable, find_java

    area = "spark"
    if find_spec("pyspark") is None:
        return
    yield Finding(area, OK, f"pyspark {version('pyspark')}")
    try:
        java = find_java()
        yield Finding(area, OK, f"Java {java.major} at {java.path}")
    except JavaUnusable as unusable:
        yield Finding(area, WARNING, f"{unusable.what}; {unusable.found}", INSTALL[0].split(":", 1)[1].strip())
    missing = [name for name in ("pyarrow", "pandas", "yaml", "pyspark_moldau") if find_spec(name) is None]
    if missing:
        yield Finding(
            area, WARNING, f"Spark cannot use moldau without {', '.join(missing)}", 'pip install "moldau[spark]"'
        )
    else:
        yield Finding(area, OK, 'format("moldau") is found by Spark')


def check_settings(config_file: Path | None) -> Iterator[Finding]:
    from moldau.config.mistakes import SettingsError
    from moldau.config.settings import Settings
    from moldau.config.sources import ConfigFile
    from moldau.runtime.net import resolves

    area = "settings"
    file = None if config_file is None else ConfigFile(str(config_file), config_file.read_text())
    try:
        settings = Settings.from_sources(file=file, env=os.environ)
    except SettingsError as failure:
        for mistake in failure.mistakes:
            yield Finding(area, ERROR, f"{mistake.where}: {mistake.what}", mistake.fix)
        return
    yield Finding(area, OK, f"{config_file or 'defaults and environment'}: no mistakes")
    for listener in settings.advertised_listeners():
        if not resolves(listener.host):
            text = f"advertised host '{listener.host}' does not resolve here, so clients here cannot connect back"
            yield Finding(area, ERROR, text, "remove advertised.listeners to advertise the dialled address")


def check_cluster(bootstrap: str) -> Iterator[Finding]:
    from moldau.cli import doctor_loop
    from moldau.cli.errors import PlainError
    from moldau.cli.session import with_cluster
    from moldau.cli.topic_hold import held_topics
    from moldau.client.cluster import Cluster

    area = "cluster"

    async def look(cluster: Cluster) -> list[Finding]:
        await cluster.refresh(None)
        count = len(cluster.brokers)
        found = [Finding(area, OK, f"{counted(count, 'broker')} at {bootstrap}, controller {cluster.controller_id}")]
        views = list(cluster.topics.items())
        leaderless = [f"{name}-{p.index}" for name, view in views for p in view.partitions if p.leader < 0]
        lagging = [f"{name}-{p.index}" for name, view in views for p in view.partitions if len(p.isr) < len(p.replicas)]
        single = [name for name, view in views if view.partitions and len(view.partitions[0].replicas) == 1]
        found.append(_count(area, leaderless, ERROR, "partition", "without a leader", "every partition has a leader"))
        found.append(_count(area, lagging, WARNING, "partition", "with replicas out of sync", "all replicas in sync"))
        if count > 1 and single:
            found.append(_count(area, single, WARNING, "topic", "with a single replica", ""))
        held = await held_topics(cluster)
        if held:
            text = "neither deleted from nor compacted, as their settings were lost"
            found.append(_count(area, held, WARNING, "topic", text, "", "moldau topic confirm --all"))
        quick, text = doctor_loop.answers(await doctor_loop.answer_times_ms(cluster))
        found.append(Finding(area, OK if quick else WARNING, text))
        return found

    try:
        yield from with_cluster(bootstrap, look, timeout_s=3)
    except PlainError as failure:
        yield Finding(area, WARNING, f"{failure.message} at {bootstrap}", "moldau up")


def check_loop(data_dir: Path) -> Iterator[Finding]:
    from moldau.cli import doctor_loop

    well, text = doctor_loop.held(data_dir)
    fix = "the log says when; large requests, huge groups or a slow disk are usual causes"
    yield Finding("cluster", OK if well else WARNING, text, "" if well else fix)


def check_logs(data_dir: Path) -> Iterator[Finding]:
    """What starts of the broker found cut, missing or damaged; nothing to say where nothing was."""
    from moldau.node import damage_list
    from moldau.storage.findings import OFFLINE, REBUILT

    area = "logs"
    found = damage_list.read(data_dir)
    for what in found[-SHOWN_MAX:]:
        state = ERROR if what.kind == OFFLINE else OK if what.kind == REBUILT else WARNING
        yield Finding(area, state, what.text)
    if found:
        fix = f"restore what matters from a copy; then remove {data_dir / damage_list.NAME}"
        yield Finding(area, WARNING, f"{counted(len(found), 'finding')} since {_day(found)}", fix)


def _day(found: list[Damage]) -> str:
    return datetime.fromtimestamp(min(one.first_ms for one in found) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def check_clock(data_dir: Path) -> Iterator[Finding]:
    from moldau.node.clock_keeper import read_jump_ms

    jump_days = read_jump_ms(data_dir) / 86_400_000
    if jump_days:
        way = "ahead of" if jump_days > 0 else "behind"
        text = (
            f"the wall clock is {abs(jump_days):.1f} days {way} the time the broker kept; nothing is deleted by its age"
        )
        fix = "set the clock; or, if it is right: moldau config set broker 1 moldau.clock.jumps=follow"
        yield Finding("cluster", WARNING, text, fix)


def _count(area: str, names: list[str], state: str, noun: str, problem: str, fine: str, fix: str = "") -> Finding:
    if not names:
        return Finding(area, OK, fine)
    text = f"{counted(len(names), noun)} {problem}: {', '.join(names[:5])}{' ...' * (len(names) > 5)}"
    return Finding(area, state, text, fix)


def _print(findings: list[Finding]) -> None:
    area = ""
    for finding in findings:
        label = finding.area if finding.area != area else ""
        area = finding.area
        mark, colour = MARKS[finding.state]
        click.echo(f"  {label:<13}{click.style(mark, fg=colour)} {finding.text}")
        if finding.fix:
            click.echo(f"  {'':<13}  fix: {finding.fix}")
    errors = sum(finding.state == ERROR for finding in findings)
    warnings = sum(finding.state == WARNING for finding in findings)
    click.echo(f"  {counted(errors, 'error')}, {counted(warnings, 'warning')}.")
