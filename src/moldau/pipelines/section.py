"""Reading one mapping of a pipeline file: typed getters that tell every mistake and never stop at the first."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from moldau.model.quantities import in_unit_of
from moldau.pipelines.durations import HINT, parse_ms
from moldau.pipelines.nodes import Node
from moldau.pipelines.places import Mistakes, Place, Text, one_of
from moldau.pipelines.spec import Options, PythonReference, Watermark

VIEW_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
FREE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class Section:
    """`what` says in messages which part this is: `source 'views'`."""

    def __init__(self, node: Node, what: str, base: Path, mistakes: Mistakes) -> None:
        self.place = node.place
        self.what = what
        self.mistakes = mistakes
        self.base = base
        self._items = node.value if isinstance(node.value, dict) else {}
        self._key_places = node.key_places or {}
        if not isinstance(node.value, dict):
            mistakes.add(node.place, f"{what} must be a mapping, not {node.kind}")
        self.readable = isinstance(node.value, dict)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def key_place(self, key: str) -> Place:
        return self._key_places.get(key, self.place)

    def value_place(self, key: str) -> Place:
        node = self._items.get(key)
        return self.place if node is None else node.place

    def allow(self, known: Iterable[str]) -> None:
        """Tell every key that is not among these."""
        known = list(known)
        for key in self._items:
            if key not in known:
                self.mistakes.add(self.key_place(key), f"{self.what} has no key '{key}'", one_of(key, known))

    def kind(self, kinds: Sequence[str]) -> str | None:
        """Which one of these keys is given; exactly one must be.

        A misspelt one is told and then read as what was meant, so that it does not hide what else is wrong.
        """
        given = [kind for kind in kinds if kind in self._items]
        if len(given) == 1:
            return given[0]
        listed = ", ".join(kinds)
        if given:
            named = " and ".join(f"'{kind}'" for kind in given)
            self.mistakes.add(self.key_place(given[1]), f"{self.what} has {named}", f"exactly one of: {listed}")
        elif self.readable:
            meant = [(key, near[0]) for key in self._items if (near := difflib.get_close_matches(key, kinds, n=1))]
            hint = f"'{meant[0][0]}': did you mean '{meant[0][1]}'?" if meant else f"exactly one of: {listed}"
            self.mistakes.add(self.place, f"{self.what} does not say what it is", hint)
            if len(meant) == 1:
                return self._read_as(*meant[0])
        return None

    def _read_as(self, key: str, meant: str) -> str:
        self._items = {meant if name == key else name: node for name, node in self._items.items()}
        self._key_places = {meant if name == key else name: place for name, place in self._key_places.items()}
        return meant

    def kind_of_two(self, first: str, second: str) -> str | None:
        """Like `kind`, where the section has said already what it is."""
        if (first in self) == (second in self):
            self.mistakes.add(self.place, f"{self.what} needs either '{first}' or '{second}'")
            return None
        return first if first in self else second

    # -- getters: a wrong value is told and read as missing ----------------------------------------------------

    def node(self, key: str) -> Node | None:
        return self._items.get(key)

    def text(self, key: str, *, required: bool = False) -> Text | None:
        node = self._given(key, required)
        if node is None:
            return None
        if isinstance(node.value, bool) or not isinstance(node.value, str | int | float):
            self._wrong(key, node, "a text")
            return None
        if node.value == "":
            self._wrong(key, node, "a text", "it is empty")
            return None
        return node.text()

    def string(self, key: str, default: str = "", *, required: bool = False) -> str:
        text = self.text(key, required=required)
        return default if text is None else text.value

    def name(self, key: str, pattern: re.Pattern[str] = VIEW_NAME, *, required: bool = False) -> Text | None:
        text = self.text(key, required=required)
        if text is not None and not pattern.match(text.value):
            extra = "" if pattern is VIEW_NAME else ", '.', '-'"
            self.mistakes.add(
                text.place,
                f"'{text.value}' is not a name",
                f"letters, digits, '_'{extra}; not starting with a digit",
            )
        return text

    def topic(self, key: str, *, required: bool = False) -> Text | None:
        text = self.text(key, required=required)
        if text is not None and (not TOPIC_NAME.match(text.value) or text.value in (".", "..")):
            self.mistakes.add(
                text.place, f"'{text.value}' is not a topic name", "up to 249 letters, digits, '.', '_', '-'"
            )
        return text

    def bootstrap(self, default: str) -> str:
        from moldau.client.cluster import parse_bootstrap

        text = self.text("bootstrap")
        if text is None:
            return default
        try:
            parse_bootstrap(text.value)
        except ValueError as mistake:
            self.mistakes.add(text.place, str(mistake))
        return text.value

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        text = self.text(key)
        if text is None:
            return default
        if text.value not in known:
            self.mistakes.add(text.place, f"{key} '{text.value}' is unknown in {self.what}", one_of(text.value, known))
            return default
        return text.value

    def duration_ms(self, key: str, default: int) -> int:
        text = self.text(key)
        if text is None:
            return default
        ms = parse_ms(text.value)
        if ms is None:
            self.mistakes.add(text.place, f"'{text.value}' is not a duration", HINT)
            return default
        return ms

    def integer(self, key: str, *, minimum: int = 0) -> int | None:
        node = self._given(key, False)
        if node is None:
            return None
        if isinstance(node.value, bool) or not isinstance(node.value, int):
            self._wrong(key, node, "a whole number")
            return None
        if node.value < minimum:
            self._wrong(key, node, "a whole number", f"at least {minimum}")
            return None
        return node.value

    def names(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of texts; one text alone stands for a list of one."""
        node = self._given(key, required)
        if node is None:
            return ()
        items = node.value if isinstance(node.value, list) else [node]
        if not items:
            self._wrong(key, node, "a list of names", "it is empty")
        wrong = [item for item in items if not isinstance(item.value, str) or not item.value]
        for item in wrong:
            self._wrong(key, item, "a name")
        return tuple(str(item.value) for item in items if item not in wrong)

    def options(self, key: str) -> Options:
        """A flat mapping; numbers and flags become the texts that Spark expects."""
        found: dict[str, str] = {}
        for name, node in self.children(key).items():
            if isinstance(node.value, bool):
                found[name] = "true" if node.value else "false"
            elif isinstance(node.value, str | int | float):
                found[name] = str(node.value)
            else:
                self._wrong(f"{key}.{name}", node, "a text, number or flag")
        return found

    def client_settings(self, key: str) -> Options:
        """Kafka's settings by name; `request.timeout.ms: 30s` becomes the bare number that clients expect."""
        nodes = self.children(key)
        found: dict[str, str] = {}
        for name, value in self.options(key).items():
            try:
                found[name] = in_unit_of(name, value)
            except ValueError as mistake:
                self.mistakes.add(nodes[name].place, str(mistake))
        return found

    def texts(self, key: str) -> dict[str, Text]:
        found: dict[str, Text] = {}
        for name, node in self.children(key).items():
            if isinstance(node.value, str) and node.value:
                found[name] = node.text()
            else:
                self._wrong(f"{key}.{name}", node, "a text")
        return found

    def arguments(self, key: str) -> dict[str, Any]:
        return {name: plain(node) for name, node in self.children(key).items()}

    def children(self, key: str) -> dict[str, Node]:
        node = self._given(key, False)
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            self._wrong(key, node, "a mapping")
            return {}
        return node.value

    def path(self, key: str, *, required: bool = False, default: str = "") -> str:
        text = self.string(key, default, required=required)
        return resolve_path(self.base, text) if text else ""

    def watermark(self) -> Watermark | None:
        node = self._given("watermark", False)
        if node is None:
            return None
        section = Section(node, f"the watermark of {self.what}", self.base, self.mistakes)
        section.allow(("column", "delay"))
        column = section.text("column", required=True)
        section.text("delay", required=True)
        return None if column is None else Watermark(column.value, section.duration_ms("delay", 0), column.place)

    def python(self, key: str, example: str) -> PythonReference | None:
        node = self._given(key, True)
        if node is None:
            return None
        if callable(node.value):
            return PythonReference(node.place, None, getattr(node.value, "__qualname__", str(node.value)), node.value)
        text = self.text(key)
        if text is None:
            return None
        file, separator, name = text.value.rpartition(":")
        if not separator or not file.endswith(".py") or not name.isidentifier():
            self.mistakes.add(text.place, f"'{text.value}' does not name Python code", f"such as {example}")
            return None
        return PythonReference(text.place, Path(resolve_path(self.base, file)), name)

    # -- inside ------------------------------------------------------------------------------------------------

    def _given(self, key: str, required: bool) -> Node | None:
        node = self._items.get(key)
        if node is None and required and self.readable:
            self.mistakes.add(self.place, f"{self.what} needs '{key}'")
        elif node is not None and node.value is None:
            self._wrong(key, node, "a value")
            return None
        return node

    def _wrong(self, key: str, node: Node, wanted: str, why: str = "") -> None:
        said = why or f"not {node.kind}"
        self.mistakes.add(node.place, f"'{key}' of {self.what} must be {wanted}, {said}")


def plain(node: Node) -> Any:
    """The tree as plain data."""
    value = node.value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def resolve_path(base: Path, text: str) -> str:
    """Relative paths start at the file's folder; what has a scheme is passed on."""
    if _SCHEME.match(text):
        return text
    return os.path.normpath(base / Path(text).expanduser())
