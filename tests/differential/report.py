"""What a run found: a table by API, and every difference that nobody has explained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.differential.compare import Difference, differences
from tests.differential.explained import EXPLAINED, Explained, says_unexpected
from tests.differential.run import Noted, api_name

MISSING = "<not asked>"


@dataclass
class Row:
    cases: int = 0
    equal: int = 0
    explained: int = 0
    different: int = 0


@dataclass
class Report:
    rows: dict[str, Row] = field(default_factory=dict)
    unexplained: list[tuple[str, Difference]] = field(default_factory=list)
    used: dict[Explained, int] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        return sum(row.cases for row in self.rows.values())

    @property
    def unused(self) -> list[Explained]:
        """Explanations of what does not differ any more: they are to be taken away."""
        return [rule for rule in EXPLAINED if rule not in self.used]

    def add(self, note: Noted, kafka: Any) -> None:
        row = self.rows.setdefault(api_name(note.api), Row())
        row.cases += 1
        found = list(differences(kafka, note.answer))
        failed = bool(found) and says_unexpected(kafka)
        left = [(note.key, one) for one in found if not self._is_explained(note.key, one, failed)]
        self.unexplained += left
        if left:
            row.different += 1
        elif found:
            row.explained += 1
        else:
            row.equal += 1

    def _is_explained(self, key: str, difference: Difference, failed: bool) -> bool:
        rule = next((rule for rule in EXPLAINED if rule.covers(key, difference, failed)), None)
        if rule is not None:
            self.used[rule] = self.used.get(rule, 0) + 1
        return rule is not None

    def table(self) -> str:
        total = Row()
        lines = [f"{'API':32} {'cases':>7} {'equal':>7} {'explained':>10} {'different':>10}"]
        for name, row in sorted(self.rows.items()):
            lines.append(_line(name, row))
            total.cases += row.cases
            total.equal += row.equal
            total.explained += row.explained
            total.different += row.different
        return "\n".join([*lines, _line("all", total)])

    def explanations(self) -> str:
        return "\n".join(f"{count:6} x {rule}" for rule, count in self.used.items())

    def problems(self, shown_max: int = 200) -> str:
        lines = [f"{key}\n    {difference}" for key, difference in self.unexplained[:shown_max]]
        if len(self.unexplained) > shown_max:
            lines.append(f"... and {len(self.unexplained) - shown_max} more")
        lines += [f"explained, but nothing differs: {rule}" for rule in self.unused]
        return "\n".join(lines)


def _line(name: str, row: Row) -> str:
    return f"{name:32} {row.cases:7} {row.equal:7} {row.explained:10} {row.different:10}"


def compared(ours: Iterable[Noted], kafka: Mapping[str, Any]) -> Report:
    report = Report()
    for note in ours:
        report.add(note, kafka.get(note.key, MISSING))
    return report
