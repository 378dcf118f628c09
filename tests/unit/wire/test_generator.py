"""The generated code is what the tables say, and the tables are read as written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools"))

from wiregen.tables import Versions, format_table, parse_table, parse_versions, snake_case  # noqa: E402

TABLE = """\
request ThingRequest key=5 versions=1-3 flexible=2+ listeners=broker
  Name string 1+ nullable=3+ default=null
  Parts []Part 1+
    Id uuid 2+ tag=0
  Other Shared 1+
  struct Shared
    Count int32 1-2 default=-1
"""


def test_the_generated_code_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_wire.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"run tools/generate_wire.py; different: {done.stdout}"


def test_every_table_is_in_its_own_format() -> None:
    for path in (ROOT / "src" / "moldau" / "wire" / "schema").glob("*.table"):
        text = path.read_text()
        assert format_table(parse_table(text, path.name)) == text, path.name


def test_a_table_is_read() -> None:
    (message,) = parse_table(TABLE)
    assert (message.name, message.key, message.versions, message.listeners) == (
        "ThingRequest", 5, Versions(1, 3), ("broker",),
    )  # fmt: skip
    name, parts, other = message.fields
    assert (name.nullable, name.default) == (Versions(3, 32767), "null")
    assert (parts.is_array, parts.element_type, parts.fields[0].tag) == (True, "Part", 0)
    assert (other.is_struct, message.shared[0].fields[0].versions) == (True, Versions(1, 2))
    assert format_table([message]) == TABLE


def test_a_mistake_in_a_table_is_reported_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"thing\.table:2"):
        parse_table("request X versions=0 flexible=0+\n  Name string\n", "thing.table")


@pytest.mark.parametrize(("text", "low", "high"), [("3", 3, 3), ("3+", 3, 32767), ("0-12", 0, 12), ("none", 0, -1)])
def test_versions_are_read(text: str, low: int, high: int) -> None:
    assert parse_versions(text) == Versions(low, high)
    assert str(Versions(low, high)) == text


@pytest.mark.parametrize(
    ("name", "snake"), [("TimeoutMs", "timeout_ms"), ("KRaftVersionRecord", "kraft_version_record")]
)
def test_names_become_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake
