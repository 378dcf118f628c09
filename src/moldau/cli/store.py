"""`moldau store ...`: the metadata of a data directory, looked at and made anew while no broker serves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.errors import PlainError
from moldau.cli.local_broker import DEFAULT_DATA_DIR, data_dir_option
from moldau.cli.output import FORMAT, counted, print_facts, print_rows
from moldau.model.quantities import utc

if TYPE_CHECKING:
    from moldau.store.rescue import Source


@click.group(help="Check the metadata of a data directory, and restore it from its copy.")
def store() -> None:
    pass


DATA_DIR = click.option(
    "--data-dir",
    default=DEFAULT_DATA_DIR,
    show_default=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The first one, where a broker has several.",
)
FROM = click.option(
    "--from",
    "others",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Another copy to look at, such as metadata.copy of a backup or of another log directory; repeatable.",
)


@store.command(
    help="Tell whether the metadata and their copies are sound.",
    epilog="Exit status 1 if metadata.db is damaged, missing or older than a copy.",
)
@DATA_DIR
@FROM
@FORMAT
def check(data_dir: Path, others: tuple[str, ...], format_: str) -> None:
    from moldau.runtime.disk import RealDisk
    from moldau.store.rescue import best, sources

    found = sources(RealDisk(), str(data_dir), others)
    newest = best(found)
    print_rows(_rows(found), format_)
    if newest is not found[0]:
        if format_ == "table":
            fix = "no sound copy is there" if newest is None else f"moldau store restore{data_dir_option(data_dir)}"
            click.echo(f"\n{found[0].path} is not the newest sound one. fix: {fix}")
        raise SystemExit(1)


@store.command(help="Make metadata.db anew from the newest sound copy. Nothing is deleted: what was there is renamed.")
@DATA_DIR
@FROM
@click.option("--dry-run", is_flag=True, help="Only show what there is and what would be done.")
@FORMAT
def restore(data_dir: Path, others: tuple[str, ...], dry_run: bool, format_: str) -> None:
    from moldau.model.failures import DirectoryLocked
    from moldau.runtime.clock import WallClock
    from moldau.runtime.disk import RealDisk
    from moldau.store import rescue

    disk = RealDisk()
    try:
        unlock = disk.lock(str(data_dir / ".lock"))
    except DirectoryLocked as locked:
        from moldau.cli.up import in_use

        raise in_use(data_dir, [("why", str(locked))]) from locked
    try:
        found = rescue.sources(disk, str(data_dir), others)
        newest = rescue.best(found)
        if format_ == "table":
            print_rows(_rows(found), format_)
            click.echo()
        if newest is None:
            raise _nothing(data_dir, found)
        if newest is found[0]:
            _tell(format_, f"{newest.path} is sound and the newest: nothing to restore", newest, restored=False)
            return
        if dry_run:
            _tell(format_, f"metadata.db would be made from {newest.path}", newest, restored=False)
            return
        kept = rescue.restore(disk, str(data_dir), newest, WallClock().wall_ms())
    finally:
        unlock()
    topics = counted(len(newest.image.topics_by_name), "topic")
    was = f"; what was there is now {', '.join(kept)}" if kept else ""
    _tell(format_, f"restored metadata.db from {newest.path}: {topics}{was}", newest, restored=True, kept=kept)
    if format_ == "table":
        click.echo(f"next: moldau up{data_dir_option(data_dir)}")


def _tell(format_: str, sentence: str, source: Source, *, restored: bool, kept: list[str] | None = None) -> None:
    if format_ == "table":
        click.echo(sentence)
        return
    facts = {"restored": restored, "source": source.path, "topics": len(source.image.topics_by_name)}
    print_facts({**facts, "kept": kept or []}, format_)


def _rows(found: list[Source]) -> list[dict[str, Any]]:
    return [
        {
            "file": source.path,
            "state": source.problem or "sound",
            "changes": None if source.problem else source.image.offset,
            "topics": None if source.problem else len(source.image.topics_by_name),
            "written": None if source.written_ms < 0 else utc(source.written_ms),
        }
        for source in found
    ]


def _nothing(data_dir: Path, found: list[Source]) -> PlainError:
    return PlainError(
        "MD-4002",
        "there is nothing to restore the metadata from",
        facts=[(Path(source.path).name, source.problem) for source in found],
        fixes=[
            "name a copy that you have: moldau store restore --from FILE",
            f"or go on without, nothing deleted until you confirm: moldau up{data_dir_option(data_dir)} --adopt-logs",
        ],
    )
