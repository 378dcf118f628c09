"""The table of the Spark rows, on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.spark.rows import SparkRow

Values = dict[str, dict[str, list[dict[str, float]]]]  # row name -> side -> rounds
HEADINGS = ("row", "value", "connector", "moldau", "ratio", "asked", "verdict")


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]} if rounds else {}


def lines(rows: list[SparkRow], values: Values) -> list[tuple[str, ...]]:
    found = []
    for row in rows:
        ours, theirs = (medians(values[row.name].get(side, [])) for side in ("moldau", "connector"))
        for column in ours or theirs:
            judged = column == next(iter(ours or theirs)) or column == "record"
            ratio = ours[column] / theirs[column] if column in ours and theirs.get(column) else None
            asked, verdict = (asked_of(row), row.verdict(ratio)) if judged else ("", "stated")
            unit = "MiB" if column.endswith(("rss", "pss")) else row.unit
            shown = [f"{side[column]:,.0f} {unit}" if column in side else "" for side in (theirs, ours)]
            found.append((row.title, column, *shown, "" if ratio is None else f"{ratio:.2f}x", asked, verdict))
    return found


def asked_of(row: SparkRow) -> str:
    if row.at_least is not None:
        return f">= {row.at_least:g}x"
    return f"<= {row.at_most:g}x" if row.at_most is not None else ""


def show(console: Console, rows: list[SparkRow], values: Values, failures: list[str]) -> None:
    table = Table(*HEADINGS, title="moldau's Spark source and sink against Spark's own Kafka connector")
    for line in lines(rows, values):
        style = {"ok": "green", "stated": None, "not compared": None}.get(line[-1], "red")
        table.add_row(*line, style=style)
    console.print(table)
    for failure in failures:
        console.print(f"[red]{failure}")


def markdown(rows: list[SparkRow], values: Values, facts: dict[str, str], failures: list[str]) -> str:
    text = ["# Spark", "", "Medians over the rounds; `ratio` is moldau divided by the connector.", ""]
    text += [f"- {key}: {value}" for key, value in facts.items()]
    text += ["", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    text += ["| " + " | ".join(line) + " |" for line in lines(rows, values)]
    text += ["", "Failed:", "", *(f"- {failure}" for failure in failures)] if failures else []
    return "\n".join(text) + "\n"


def as_json(rows: list[SparkRow], values: Values, facts: dict[str, str], failures: list[str]) -> str:
    document: dict[str, Any] = {"facts": facts, "failures": failures, "rows": {}}
    for row in rows:
        rounds = values[row.name]
        middle = {side: medians(found) for side, found in rounds.items() if found}
        document["rows"][row.name] = {"title": row.title, "unit": row.unit, "median": middle, "rounds": rounds}
    return json.dumps(document, indent=1) + "\n"
