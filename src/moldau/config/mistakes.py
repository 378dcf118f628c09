"""What is wrong with the configuration: everything at once, each with its place and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.model.failures import MoldauError


class Mistake(NamedTuple):
    """One thing to mend. `where` is a file and line, a variable, or the command line."""

    where: str
    what: str
    fix: str = ""


class SettingsError(MoldauError):
    """The configuration cannot be used. Carries every mistake that was found."""

    code = "MD-2001"

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self._text())

    def _text(self) -> str:
        count = len(self.mistakes)
        lines = [f"error[{self.code}]: {count} {'mistake' if count == 1 else 'mistakes'} in the configuration"]
        for mistake in self.mistakes:
            lines.append(f"  {mistake.where}")
            lines.append(f"    what     {mistake.what}")
            if mistake.fix:
                lines.append(f"    fix      {mistake.fix}")
        return "\n".join(lines)


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.75) -> str | None:
    """The known name that `name` was probably meant to be."""
    import difflib  # 3 ms, and only needed when something is wrong

    candidates = list(known)
    found = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=cutoff)
    if found:
        return found[0]
    # Word order is a frequent slip: `retention.log.hours`, `max.bytes.message`.
    words = sorted(name.lower().replace("_", ".").replace("-", ".").split("."))
    return next((candidate for candidate in candidates if sorted(candidate.split(".")) == words), None)
