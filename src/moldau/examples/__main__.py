"""`python -m moldau.examples`: list the examples; with a name, copy one here to run and to change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import click

HERE = Path(__file__).parent
# These stay in the package and are run from there: `python -m moldau.examples.<name>.generate`.
NOT_COPIED = {"__init__.py", "generate.py", "expected.py"}
COPIED = {".yaml", ".md", ".py", ".sql"}


def names() -> list[str]:
    return sorted(file.parent.name for file in HERE.glob("*/pipeline.yaml"))


def copy(name: str, target: Path) -> Path:
    """Copy what belongs to the pipeline; its state and tables will be beside it. Returns the pipeline file."""
    target.mkdir(parents=True)
    for file in _files(HERE / name):
        shutil.copyfile(file, target / file.name)
    return target / "pipeline.yaml"


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.iterdir()) if file.suffix in COPIED and file.name not in NOT_COPIED)


@click.command(help="List the examples, or copy one into a new folder of its name.")
@click.argument("name", required=False)
def main(name: str | None) -> None:
    if name is None:
        for known in names():
            title = (HERE / known / "README.md").read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            click.echo(f"{known:<10} {title}")
        return
    if name not in names():
        raise click.ClickException(f"there is no example '{name}'; there are {', '.join(names())}")
    if Path(name).exists():
        raise click.ClickException(f"'{name}' exists already; remove it or go elsewhere")
    pipeline = copy(name, Path(name))
    click.echo(f"copied to {pipeline.parent}/\n")
    click.echo(f"  python -m moldau.examples.{name}.generate   # sends its input to the broker")
    click.echo(f"  moldau pipeline run {pipeline} --once   # reads all of it and ends")


if __name__ == "__main__":
    main()
