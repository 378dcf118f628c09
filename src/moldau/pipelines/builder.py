"""A pipeline written in Python: the same keys as in YAML, given as arguments.

Each call remembers the line it stands on, and the result is the same tree that a YAML file becomes, so both are read
and checked by the same code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from moldau.pipelines.nodes import Node, from_python
from moldau.pipelines.places import Place

F = TypeVar("F", bound=Callable[..., Any])


def _caller() -> Place:
    frame = sys._getframe(2)
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _tree(place: Place, keys: dict[str, Any]) -> Node:
    """Arguments as a mapping; `from_` and `with_` stand for keys that are Python words."""
    return from_python({name.removesuffix("_"): value for name, value in keys.items()}, place)


class Pipeline:
    """Make one in a file and run the file with `moldau pipeline run`."""

    def __init__(self, name: str, **keys: Any) -> None:
        self.name = name
        self._place = _caller()
        self._keys = _tree(self._place, {"pipeline": name, **keys})
        self._sources: dict[str, Node] = {}
        self._steps: list[Node] = []
        self._sinks: list[Node] = []

    def source(self, name: str, **keys: Any) -> None:
        place = _caller()
        if name in self._sources:
            raise ValueError(f"source '{name}' is given twice")
        self._sources[name] = _tree(place, keys)

    def sql(self, name: str, sql: str, **keys: Any) -> None:
        self._steps.append(_tree(_caller(), {"name": name, "sql": sql, **keys}))

    @overload
    def step(self, function: F, /) -> F: ...
    @overload
    def step(self, /, *, name: str | None = None, **keys: Any) -> Callable[[F], F]: ...
    def step(self, function: F | None = None, /, *, name: str | None = None, **keys: Any) -> F | Callable[[F], F]:
        """Decorate a function: its name is the step's, its parameters are what it reads."""
        place = _caller()

        def add(decorated: F) -> F:
            self._steps.append(_tree(place, {"name": name or decorated.__name__, "python": decorated, **keys}))
            return decorated

        return add if function is None else add(function)

    def stateful(self, name: str, processor: type, *, watermark: Any = None, **keys: Any) -> None:
        step: dict[str, Any] = {"name": name, "stateful": {"processor": processor, **_without_underscores(keys)}}
        if watermark is not None:
            step["watermark"] = watermark
        self._steps.append(_tree(_caller(), step))

    def sink(self, **keys: Any) -> None:
        self._sinks.append(_tree(_caller(), keys))

    def tree(self) -> Node:
        """What a YAML file with the same content becomes."""
        items = self._keys.value
        assert isinstance(items, dict)
        places = dict.fromkeys([*items, "sources", "steps", "sinks"], self._place)
        parts: dict[str, Node] = {
            **items,
            "sources": Node(self._place, dict(self._sources), {n: node.place for n, node in self._sources.items()}),
            "steps": Node(self._place, list(self._steps)),
            "sinks": Node(self._place, list(self._sinks)),
        }
        return Node(self._place, parts, places)


def _without_underscores(keys: dict[str, Any]) -> dict[str, Any]:
    return {name.removesuffix("_"): value for name, value in keys.items()}
