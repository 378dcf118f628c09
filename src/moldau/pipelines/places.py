"""Where in a file something was said: every value of a pipeline keeps its place, so that every mistake can name it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Place:
    file: str
    line: int
    """From 1."""
    column: int = 1
    """From 1."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Text:
    """A text that may have lines of its own, such as SQL, and knows where each of them is in the file."""

    value: str
    place: Place
    first_line: int = 0
    """The file's line of the text's first line; 0 when the text does not keep the file's lines."""
    indent: int = 0

    def at(self, line: int, position: int) -> Place:
        """The place of a position within the text, as Spark counts: lines from 1, positions from 0."""
        if self.first_line:
            return Place(self.place.file, self.first_line + line - 1, self.indent + position + 1)
        return self.place

    def at_index(self, index: int) -> Place:
        before = self.value[:index]
        return self.at(before.count("\n") + 1, index - (before.rfind("\n") + 1))


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    place: Place
    what: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" + (f" ({self.hint})" if self.hint else "")


@dataclass(slots=True)
class Mistakes:
    """Collects, so that people see all of them at once."""

    found: list[Mistake] = field(default_factory=list)

    def add(self, place: Place, what: str, hint: str = "") -> None:
        mistake = Mistake(place, what, hint)
        if mistake not in self.found:
            self.found.append(mistake)

    def __bool__(self) -> bool:
        return bool(self.found)


class PipelineMistaken(Exception):
    """The file cannot become a pipeline; carries every mistake found."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes))
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'topic'?`, or nothing when no known word is near."""
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean '{found[0]}'?" if found else ""


def one_of(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or all of them."""
    known = list(known)
    return nearest(word, known) or "known: " + ", ".join(known)
