"""Running a pipeline that is written in Python, up to its `Pipeline` object."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from moldau.pipelines.builder import Pipeline
from moldau.pipelines.nodes import Node
from moldau.pipelines.places import Mistakes, Place
from moldau.pipelines.python_code import CodeFailed, load_module


def run_python_file(path: Path, variables: Mapping[str, str], mistakes: Mistakes) -> Node | None:
    """The tree of the one `Pipeline` that the file makes; its functions stay what they are."""
    place = Place(str(path), 1)
    if not path.is_file():
        mistakes.add(place, "the file cannot be read: No such file or directory")
        return None
    try:
        with _environment(variables):
            module = load_module(path, place)
    except CodeFailed as failure:
        mistakes.add(failure.place, str(failure))
        return None
    made = [(name, value) for name, value in vars(module).items() if isinstance(value, Pipeline)]
    distinct = {id(value): value for _, value in made}
    if len(distinct) != 1:
        names = ", ".join(name for name, _ in made) or "none"
        mistakes.add(place, "the file must make exactly one Pipeline", f"found: {names}")
        return None
    return next(iter(distinct.values())).tree()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """What `--set` gives is in `os.environ` while the file runs, as it is in `${...}`."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
