"""A file as a tree of values that know their places. YAML and Python files become the same tree, read by one reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.pipelines.places import Mistakes, Place, Text

Scalar = str | int | float | bool | None
DEPTH_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Node:
    place: Place
    value: Scalar | list[Node] | dict[str, Node] | Callable[..., Any]
    key_places: Mapping[str, Place] | None = None
    """Of a mapping: where each key stands."""
    first_line: int = 0
    """Of a text in a literal block: the file's line of its first line."""
    indent: int = 0

    @property
    def kind(self) -> str:
        """The value's type in the words of the file."""
        value = self.value
        if isinstance(value, dict):
            return "a mapping"
        if isinstance(value, list):
            return "a list"
        if value is None:
            return "nothing"
        if isinstance(value, bool):
            return "true or false"
        if isinstance(value, int | float):
            return "a number"
        return "a text" if isinstance(value, str) else "a Python object"

    def text(self) -> Text:
        return Text(str(self.value), self.place, self.first_line, self.indent)


# -- YAML ------------------------------------------------------------------------------------------------------------


def parse_yaml(source: str, file: str, mistakes: Mistakes) -> Node | None:
    """The tree of a YAML document. None, with the mistake told, when it is not YAML."""
    import yaml

    try:
        root = yaml.compose(source, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1)
        problem = error.problem or "cannot be read"
        mistakes.add(place, f"this is not YAML: {problem}", _yaml_hint(problem))
        return None
    except yaml.YAMLError as error:
        mistakes.add(Place(file, 1), f"this is not YAML: {str(error).splitlines()[0]}")
        return None
    if root is None:
        mistakes.add(Place(file, 1), "the file is empty")
        return None
    return _FromYaml(file, source.splitlines(), mistakes).convert(root, 0)


def _yaml_hint(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "put a text that contains ': ' in quotes, or in a block after '|'"
    if "expected ',' or" in problem:
        return "inside {...} and [...] a text with a comma, quote or bracket must be in quotes"
    if "'\\t'" in problem:
        return "YAML is indented with spaces, not tabs"
    return ""


class _FromYaml:
    def __init__(self, file: str, lines: list[str], mistakes: Mistakes) -> None:
        import yaml

        self._file = file
        self._lines = lines
        self._mistakes = mistakes
        self._scalars = yaml.constructor.SafeConstructor()

    def convert(self, node: Any, depth: int) -> Node:
        place = Place(self._file, node.start_mark.line + 1, node.start_mark.column + 1)
        if depth > DEPTH_MAX:
            self._mistakes.add(place, f"nested deeper than {DEPTH_MAX} levels")
            return Node(place, None)
        if node.id == "mapping":
            return self._mapping(node, place, depth)
        if node.id == "sequence":
            return Node(place, [self.convert(item, depth + 1) for item in node.value])
        return self._scalar(node, place)

    def _mapping(self, node: Any, place: Place, depth: int) -> Node:
        items: dict[str, Node] = {}
        places: dict[str, Place] = {}
        for key, value in node.value:
            key_place = Place(self._file, key.start_mark.line + 1, key.start_mark.column + 1)
            if key.id != "scalar":
                self._mistakes.add(key_place, "a key must be a plain text")
                continue
            name = str(key.value)
            if name in items:
                self._mistakes.add(key_place, f"'{name}' is given twice", f"first at line {places[name].line}")
                continue
            items[name] = self.convert(value, depth + 1)
            places[name] = key_place
        return Node(place, items, places)

    def _scalar(self, node: Any, place: Place) -> Node:
        try:
            value = self._scalars.construct_object(node)
        except Exception:  # a tag such as !!python/object, or a date that is none: keep what is written
            value = node.value
        if not isinstance(value, str | int | float | bool | None):
            value = node.value  # dates and binary stay as they are written
        if node.style == "|":
            return Node(place, value, first_line=place.line + 1, indent=self._indent_of(place.line))
        if isinstance(value, str) and node.start_mark.line == node.end_mark.line:
            quote = 1 if node.style in ("'", '"') else 0
            return Node(place, value, first_line=place.line, indent=place.column - 1 + quote)
        return Node(place, value)

    def _indent_of(self, line_index: int) -> int:
        for line in self._lines[line_index:]:
            if line.strip():
                return len(line) - len(line.lstrip(" "))
        return 0


# -- Python ----------------------------------------------------------------------------------------------------------


def from_python(value: Any, place: Place) -> Node:
    """Plain Python data as a tree whose every value stands at the call that gave it."""
    if isinstance(value, Mapping):
        items = {str(name): from_python(item, place) for name, item in value.items()}
        return Node(place, items, dict.fromkeys(items, place))
    if isinstance(value, list | tuple):
        return Node(place, [from_python(item, place) for item in value])
    if value is None or isinstance(value, str | int | float | bool) or callable(value):
        return Node(place, value)
    return Node(place, str(value))  # a path, a date


# -- substitution ----------------------------------------------------------------------------------------------------

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([^}:]*)(:-([^}]*))?\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def substitute(node: Node, variables: Mapping[str, str], mistakes: Mistakes) -> Node:
    """The tree with `${NAME}` and `${NAME:-default}` replaced in every text."""
    value = node.value
    if isinstance(value, dict):
        return replace(node, value={name: substitute(item, variables, mistakes) for name, item in value.items()})
    if isinstance(value, list):
        return replace(node, value=[substitute(item, variables, mistakes) for item in value])
    if not isinstance(value, str) or "${" not in value:
        return node
    text = _VARIABLE.sub(lambda found: _replacement(found, node, variables, mistakes), value)
    # A value that is one variable alone may be a number or a flag: `max_per_batch: ${N:-100}`.
    whole = _VARIABLE.fullmatch(value)
    return replace(node, value=_plain(text) if whole is not None and whole.group(1) else text)


def _replacement(
    found: re.Match[str], node: Node, variables: Mapping[str, str], mistakes: Mistakes
) -> str:  # fmt: skip
    name = found.group(1)
    if name is None:
        return "${"
    place = node.text().at_index(found.start())
    if not _NAME.match(name):
        mistakes.add(place, f"'${{{name}}}' is not a variable", "write ${NAME} or ${NAME:-default}; $${ for a plain ${")
        return ""
    given = variables.get(name, "")
    if given:
        return given
    if found.group(2) is None:
        mistakes.add(place, f"the variable {name} is not set", f"set it, or write ${{{name}:-default}}")
        return ""
    return found.group(3) or ""


def _plain(text: str) -> Scalar:
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)
