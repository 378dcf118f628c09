"""The table: on the terminal, as Markdown, as JSON; and what is asked of each row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.floor import Floor
from bench.rows import Row
from bench.samples import Sample

RSS_SHARE_MAX: Final = 0.2
START_SHARE_MAX: Final = 0.2
START_MS_MAX: Final = 1000.0
CONNECTION_KIB_MAX: Final = 3.0

Results = dict[str, dict[str, Sample]]  # row name -> peer name -> median
Samples = dict[str, dict[str, list[Sample]]]  # row name -> peer name -> rounds


@dataclass(frozen=True)
class Verdict:
    """Which demands a row meets; an empty list of failures means all of them."""

    failures: tuple[str, ...]

    def __str__(self) -> str:
        return "ok" if not self.failures else "; ".join(self.failures)


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def judge(row: Row, ours: Sample | None, theirs: Sample | None, floor: Floor | None = None) -> Verdict:
    if ours is None:
        return Verdict(("not measured",))
    failures = budget_failures(row, ours, floor)
    if theirs is not None:
        failures += ratio_failures(row, ours, theirs)
    return Verdict(tuple(failures))


def budget_failures(row: Row, ours: Sample, floor: Floor | None) -> list[str]:
    failures = []
    if row.cpu_budget is not None and floor is not None and ours.cpu is not None:
        most = row.cpu_budget.most(floor)
        if ours.cpu > most:
            failures.append(f"budget {most:.3g} {row.cpu_unit} ({row.cpu_budget.times:g} x this machine's floor)")
    if ours.start_ms is not None and ours.start_ms > START_MS_MAX:
        failures.append("start over 1 s")
    if ours.per_connection_kib is not None and ours.per_connection_kib > CONNECTION_KIB_MAX:
        failures.append(f"over {CONNECTION_KIB_MAX:g} KiB a connection")
    return failures


def ratio_failures(row: Row, ours: Sample, theirs: Sample) -> list[str]:
    at_least = [("throughput", ratio(ours.rate, theirs.rate), 1.0)]
    at_most = [
        ("CPU", ratio(ours.cpu, theirs.cpu), 1.0),
        ("RSS", ratio(ours.rss_mib, theirs.rss_mib), RSS_SHARE_MAX),
        ("start", ratio(ours.start_ms, theirs.start_ms), START_SHARE_MAX),
    ]
    if row.p99_judged:
        at_most.append(("p99", ratio(ours.p99_us, theirs.p99_us), 1.0))
    missed = [(name, value) for name, value, bound in at_least if value is not None and value < bound]
    missed += [(name, value) for name, value, bound in at_most if value is not None and value > bound]
    return [f"{name} {value:.2f}x" for name, value in missed]


HEADINGS: Final = ("row", "peer", "rate", "p50", "p99", "broker CPU", "RSS", "note")


def table_rows(rows: list[Row], results: Results, floor: Floor | None = None) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for row in rows:
        peers = results.get(row.name, {})
        for name, sample in peers.items():
            lines.append((row.title, name, *cells(row, sample)))
        if len(peers) == 2:
            lines.append((row.title, "ratio", *ratio_cells(row, peers["moldau"], peers["kafka"], floor)))
        elif "moldau" in peers:
            lines.append((row.title, "check", "", "", "", "", "", str(judge(row, peers["moldau"], None, floor))))
    return lines


def note_of(sample: Sample) -> str:
    if sample.per_connection_kib is not None:
        return f"{sample.per_connection_kib:.1f} KiB a connection"
    if sample.loop_held_ms is not None:
        return f"loop held for {sample.loop_held_ms:.0f} ms at most"
    return ""


def cells(row: Row, sample: Sample) -> tuple[str, ...]:
    rate = f"{sample.rate:,.0f} {row.rate_unit}" if sample.rate is not None else ""
    if sample.start_ms is not None:
        rate = f"{sample.start_ms:,.0f} ms"
    cpu = f"{sample.cpu:.3g} {row.cpu_unit}" if sample.cpu is not None else ""
    rss = f"{sample.rss_mib:.0f} MiB" if sample.rss_mib is not None else ""
    return rate, micros(sample.p50_us), micros(sample.p99_us), cpu, rss, note_of(sample)


def ratio_cells(row: Row, ours: Sample, theirs: Sample, floor: Floor | None) -> tuple[str, ...]:
    pairs = (
        (ours.start_ms or ours.rate, theirs.start_ms or theirs.rate),
        (ours.p50_us, theirs.p50_us),
        (ours.p99_us, theirs.p99_us),
        (ours.cpu, theirs.cpu),
        (ours.rss_mib, theirs.rss_mib),
    )
    shown = tuple("" if (r := ratio(a, b)) is None else f"{r:.2f}x" for a, b in pairs)
    return (*shown, str(judge(row, ours, theirs, floor)))


def micros(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f} us" if value < 10_000 else f"{value / 1000:.1f} ms"


def show(console: Console, rows: list[Row], results: Results, floor: Floor | None = None) -> None:
    table = Table(*HEADINGS, title="moldau against Apache Kafka", row_styles=None)
    for line in table_rows(rows, results, floor):
        style = "bold green" if line[1] in ("ratio", "check") and line[-1] == "ok" else None
        if line[1] in ("ratio", "check") and line[-1] != "ok":
            style = "bold red"
        table.add_row(*line, style=style, end_section=line[1] in ("ratio", "check"))
    console.print(table)


def markdown(rows: list[Row], results: Results, facts: dict[str, str], floor: Floor | None = None) -> str:
    lines = ["# Benchmark", "", "Medians over the rounds; `ratio` is moldau divided by Kafka.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(line) + " |" for line in table_rows(rows, results, floor)]
    return "\n".join(lines) + "\n"


def as_json(
    rows: list[Row], results: Results, samples: Samples, facts: dict[str, str], floor: Floor | None = None
) -> str:
    document: dict[str, Any] = {"facts": facts, "rows": {}}
    for row in rows:
        peers = results.get(row.name, {})
        document["rows"][row.name] = {
            "title": row.title,
            "rate_unit": row.rate_unit,
            "cpu_unit": row.cpu_unit,
            "median": {name: sample.as_dict() for name, sample in peers.items()},
            "rounds": {name: [s.as_dict() for s in rounds] for name, rounds in samples.get(row.name, {}).items()},
            "verdict": str(judge(row, peers.get("moldau"), peers.get("kafka"), floor)),
        }
    return json.dumps(document, indent=1) + "\n"


def write(folder: Path, name: str, markdown_text: str, json_text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.md").write_text(markdown_text)
    (folder / f"{name}.json").write_text(json_text)
