"""`moldau up`: start a broker, in the foreground unless told otherwise, and say where it listens once it does."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau import __version__
from moldau.cli import run_file
from moldau.cli.errors import PlainError
from moldau.cli.local_broker import DEFAULT_DATA_DIR, data_dir_option
from moldau.config.mistakes import SettingsError
from moldau.config.settings import Settings
from moldau.config.sources import ConfigFile
from moldau.runtime.file_lock import holder_pid

if TYPE_CHECKING:
    from moldau.node.failures import AddressInUse, DirectoryInUse

DEFAULT_PORTS = (9092, *range(9192, 9202))
LOOPBACK = "localhost"


@click.command(help="Start a broker on this machine.")
@click.option("-d", "--detach", is_flag=True, help="In the background; see `moldau status` and `moldau logs`.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where the data lives.  [default: moldau-data]")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where to listen; port 0 takes a free one.  [default: localhost:9092, or where that is taken the first free"
    " port from 9192 to 9201]",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: the data goes when the broker stops.")
@click.option(
    "--adopt-logs",
    is_flag=True,
    help="Serve logs whose metadata is lost: topics are taken in from disk and kept whole until confirmed.",
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A broker setting; repeatable.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings from a TOML file or Kafka's server.properties.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="How much the broker tells while it runs.  [default: warning, with -d info]",
)
@click.option("--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]))
@click.option("--log-file", default="", hidden=True)
def up(
    detach: bool,
    data_dir: Path | None,
    listen: str | None,
    ephemeral: bool,
    adopt_logs: bool,
    sets: tuple[str, ...],
    config_file: Path | None,
    log_level: str | None,
    log_format: str,
    log_file: str,
) -> None:
    began = time.monotonic()
    from moldau.cli.pairs import parse_pairs

    if ephemeral and detach:
        raise click.UsageError("--ephemeral ends with its terminal, so it cannot be detached.")
    if ephemeral and data_dir is not None:
        raise click.UsageError("--ephemeral keeps no data, so --data-dir has no meaning with it.")
    overrides = parse_pairs(sets)
    scratch = Path(tempfile.mkdtemp(prefix="moldau-")) if ephemeral else None
    try:
        settings = _settings(config_file, overrides, scratch or data_dir, listen)
        home = Path(settings.log_dirs[0])
        if detach:
            again = _arguments(data_dir, listen, sets, config_file, log_level or "info", log_format)
            _detach(home, data_dir, again + ["--adopt-logs"] * adopt_logs)
            return
        for directory in settings.log_dirs:
            _refuse_if_served(Path(directory))
        _serve(
            settings, began, log_level or "warning", log_format, log_file, ephemeral=ephemeral, adopt_logs=adopt_logs
        )
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _arguments(
    data_dir: Path | None,
    listen: str | None,
    sets: tuple[str, ...],
    config_file: Path | None,
    log_level: str,
    log_format: str,
) -> list[str]:
    """The command line again, for the process in the background."""
    given = [("--data-dir", data_dir), ("--listen", listen), ("--config", config_file)]
    given += [("--set", pair) for pair in sets]
    given += [("--log-level", log_level), ("--log-format", log_format)]
    return [str(part) for option, value in given if value is not None for part in (option, value)]


def _detach(home: Path, data_dir: Path | None, arguments: list[str]) -> None:
    """Asked twice for the same, it is there already. Options that the running broker does not have are not dropped."""
    from moldau.cli import background

    running = run_file.read(home)
    plain = _arguments(data_dir, None, (), None, "info", "text")
    if running is not None and arguments == plain:
        click.echo(f"a broker already serves {home} at {running.bootstrap} (process {running.pid})")
        return
    _refuse_if_served(home)
    background.start(home, arguments)


def _settings(
    config_file: Path | None, overrides: dict[str, str], data_dir: Path | None, listen: str | None
) -> Settings:
    """Merge all sources; the command line's own options win, the defaults of `up` lose against every source."""
    if data_dir is not None:
        overrides["log.dirs"] = str(data_dir)
    if listen is not None:
        overrides["listeners"] = f"PLAINTEXT://{_address(listen)}"
    file = None if config_file is None else ConfigFile(str(config_file), config_file.read_text())
    try:
        settings = Settings.from_sources(file=file, env=os.environ, overrides=overrides)
        if not settings.is_set("log.dirs") and not settings.is_set("log.dir"):
            overrides["log.dirs"] = DEFAULT_DATA_DIR
        if not settings.is_set("listeners"):
            overrides["listeners"] = f"PLAINTEXT://{LOOPBACK}:{_free_port()}"
        return Settings.from_sources(file=file, env=os.environ, overrides=overrides)
    except SettingsError as failure:
        count = len(failure.mistakes)
        raise PlainError(
            "MD-2001",
            f"the settings have {count} mistake{'s' * (count != 1)}",
            facts=[
                row
                for mistake in failure.mistakes
                for row in ((mistake.where, mistake.what), *([("", mistake.fix)] if mistake.fix else []))
            ],
            fixes=["moldau config explain KEY"],
        ) from None


def _address(listen: str) -> str:
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        why = ": ports end at 65535" if port.isdigit() and separator else ""
        raise click.BadParameter(f"'{listen}' is not HOST:PORT{why}", param_hint="--listen")
    return f"{host or '0.0.0.0'}:{port}"


def _free_port() -> int:
    """9092 when it is free, else the next of a short list, so that a first try never fails."""
    from moldau.runtime.net import port_is_free

    return next((port for port in DEFAULT_PORTS if port_is_free(LOOPBACK, port)), 0)


def _refuse_if_served(data_dir: Path) -> None:
    """Before anything is opened. Who comes at the same moment is stopped by the lock itself."""
    pid = holder_pid(run_file.lock_path(data_dir))
    if pid is None:
        return
    running = run_file.read(data_dir)
    where = "not yet known: it is starting, or not a moldau broker" if running is None else running.bootstrap
    raise in_use(data_dir, [("broker", where), ("process", str(pid) if pid else "in another container or machine")])


def in_use(data_dir: Path, facts: list[tuple[str, str]]) -> PlainError:
    return PlainError(
        "MD-1003",
        "the data directory is in use",
        facts=[("data", str(data_dir)), *facts],
        fixes=[f"moldau down{data_dir_option(data_dir)}", "or use another one: moldau up --data-dir DIR"],
    )


def _serve(
    settings: Settings,
    began: float,
    log_level: str,
    log_format: str,
    log_file: str,
    *,
    ephemeral: bool,
    adopt_logs: bool,
) -> None:
    from moldau.cli.recovery_bar import RecoveryBar
    from moldau.node.lifecycle import AddressInUse, DirectoryInUse, MetadataLost, NodeFailed, UnknownLogs, run
    from moldau.runtime.logs import configure

    configure(level=log_level, as_json=log_format == "json", path=log_file)
    data_dir = Path(settings.log_dirs[0])
    bar = RecoveryBar()
    stamp = ""

    def ready(bootstrap: str) -> None:
        nonlocal stamp
        bar.close()
        stamp = run_file.write(data_dir, bootstrap, started_ms=int(time.time() * 1000), log_file=log_file)
        if not log_file:
            _greet(data_dir, bootstrap, time.monotonic() - began, ephemeral)

    try:
        run(settings, ready=ready, progress=bar.update, adopt_logs=adopt_logs)
    except AddressInUse as failure:
        raise _cannot_listen(failure) from failure
    except DirectoryInUse as failure:
        raise _cannot_use(failure) from failure
    except (MetadataLost, UnknownLogs) as failure:
        from moldau.cli.lost_metadata import explained

        raise explained(failure) from failure
    except NodeFailed as failure:
        raise PlainError(
            "MD-4001",
            "the broker had to stop",
            facts=[("why", str(failure))],
            fixes=["mend the cause and start again", "moldau doctor"],
        ) from failure
    finally:
        bar.close()
        if stamp:
            run_file.remove(data_dir, stamp)
    if not log_file:
        click.echo("stopped" + (", nothing kept" if ephemeral else f", data kept in {data_dir}"))


def _cannot_listen(failure: AddressInUse) -> PlainError:
    facts = [("listen", failure.address), ("why", failure.why)]
    fixes = ["choose another one: moldau up --listen HOST:PORT", "or let moldau choose: leave --listen out"]
    if failure.taken:
        return PlainError("MD-1002", "the port is in use", facts=facts, fixes=fixes)
    return PlainError("MD-1005", "the address cannot be listened on", facts=facts, fixes=fixes)


def _cannot_use(failure: DirectoryInUse) -> PlainError:
    if failure.locked:
        return in_use(Path(failure.directory), [("why", failure.why)])
    facts = [("data", str(failure.directory)), ("why", failure.why)]
    another = "use another one: moldau up --data-dir DIR"
    return PlainError("MD-1006", "the data directory cannot be used", facts=facts, fixes=[another, "moldau doctor"])


def _greet(data_dir: Path, bootstrap: str, took_s: float, ephemeral: bool) -> None:
    from moldau.cli.version import hot_path_is_compiled  # loads the server, which by now is there anyway

    where = f"in {data_dir} until it stops" if ephemeral else f"in {data_dir}"
    click.echo(f"\n  moldau {__version__}   single node, data {where}")
    click.echo(f"  {click.style('✔', fg='green')} broker   {bootstrap}   ready in {took_s:.2f} s")
    if not hot_path_is_compiled():
        click.echo(f"  {click.style('!', fg='yellow')} uncompiled, about five times slower: moldau doctor says why")
    flag = "" if bootstrap.endswith(":9092") or str(data_dir) == DEFAULT_DATA_DIR else f" -b {bootstrap}"
    if not bootstrap.endswith(":9092"):
        found = "moldau's commands find it from this directory; other tools" if not flag else "tools"
        click.echo(f"    9092 is not the port here; {found} need the address: {bootstrap}")
    click.echo(f"\n  Try:   echo hello | moldau produce greetings{flag}")
    click.echo(f"         moldau consume greetings -o start -e{flag}")
    click.echo(f"  Stop:  Ctrl-C{'' if ephemeral else ' (data kept)'}\n")
    sys.stdout.flush()
