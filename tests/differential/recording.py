"""Kafka's answers, kept: one line of JSON per answer, compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.differential.run import Noted

PATH = Path(__file__).parent / "kafka-4.3.jsonl.gz"


def save(notes: Iterable[Noted], path: Path = PATH) -> int:
    lines = [json.dumps([note.key, note.answer], ensure_ascii=False, separators=(",", ":")) for note in notes]
    with path.open("wb") as file, gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write("".join(f"{line}\n" for line in lines).encode())
    return len(lines)


def load(path: Path = PATH) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return dict(json.loads(line) for line in lines)
