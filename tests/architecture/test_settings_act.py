"""A setting that claims to act is read by somebody."""

from __future__ import annotations

from pathlib import Path

from moldau.config import catalog
from moldau.model.options import Effect

SOURCE = Path(__file__).resolve().parents[2] / "src" / "moldau"


def code_outside_the_tables() -> str:
    files = (path for path in sorted(SOURCE.rglob("*.py")) if "tables" not in path.parts)
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_every_key_that_acts_is_read_somewhere() -> None:
    code = code_outside_the_tables()
    through_topics = {key for keys in catalog.TOPIC_DEFAULTS.values() for key, _ in keys}
    unread = [
        option.name
        for table in (catalog.BROKER, catalog.TOPIC)
        for option in table.values()
        if option.effect is Effect.ACTS and option.name not in through_topics and f'"{option.name}"' not in code
    ]
    assert unread == []
