"""`moldau log dump` on files and directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import root
from moldau.records.builder import BatchBuilder


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """One batch of two records at offset 0, and its checkpoint, beside what is no part of a log."""
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    builder = BatchBuilder()
    builder.append(b"k", b"v", [], 1_000)
    builder.append(None, b"w", [], 2_000)
    (folder / "00000000000000000000.log").write_bytes(builder.build())
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (tmp_path / "data" / ".lock").write_text("")
    (tmp_path / "data" / "moldau.run.json").write_text("{}")
    return folder


def dump(*words: str) -> Result:
    return CliRunner().invoke(root, ["log", "dump", *words])


def test_zeros_are_shown(partition: Path) -> None:
    output = dump(str(partition / "00000000000000000000.log"), "--deep").output
    assert "base_offset=0  last_offset=1  records=2" in output
    assert "position=0" in output
    assert "offset=0  timestamp_ms=1000  key=k" in output
    assert "transactional=" not in output  # what is not so is still left out


@pytest.mark.parametrize("level", ["partition", "data"])
def test_a_directory_stands_for_its_files(partition: Path, level: str) -> None:
    result = dump(str(partition if level == "partition" else partition.parent))
    assert result.exit_code == 0, result.output
    heads = [line.split(" (")[0] for line in result.output.splitlines() if not line.startswith(" ")]
    assert heads == [str(partition / "00000000000000000000.log"), str(partition / "leader-epoch-checkpoint")]


def test_a_directory_without_a_log_is_told(tmp_path: Path) -> None:
    result = dump(str(tmp_path))
    assert result.exit_code == 1
    assert "no files of a log in this directory" in result.output


def test_lines_of_json_say_their_file(partition: Path) -> None:
    rows = [json.loads(line) for line in dump(str(partition), "--json").output.splitlines()]
    assert {Path(row["file"]).name for row in rows} == {"00000000000000000000.log", "leader-epoch-checkpoint"}
    assert rows[0]["base_offset"] == 0


def test_damage_is_found_in_a_directory(partition: Path) -> None:
    file = partition / "00000000000000000000.log"
    file.write_bytes(file.read_bytes()[:-1])
    result = dump(str(partition), "--verify-only")
    assert result.exit_code == 1
    assert "the batch is cut, 1 byte missing" in result.output


def headed(folder: Path) -> str:
    builder = BatchBuilder()
    builder.append(b"\xff\xfe", b"v", [("a", b"1"), ("a", b"2"), ("b", b""), ("c", None), ("d", b"\xff")], 1_000)
    file = folder / "00000000000000000000.log"
    file.write_bytes(builder.build())
    return str(file)


def test_records_keep_all_their_headers_and_bytes(tmp_path: Path) -> None:
    row = json.loads(dump(headed(tmp_path), "-d", "-J").output.splitlines()[1])
    assert row["headers"] == [["a", "1"], ["a", "2"], ["b", ""], ["c", None], ["d", {"base64": "/w=="}]]
    assert (row["key"], row["value"]) == ({"base64": "//4="}, "v")
    assert '    - - "a"\n      - "2"\n' in dump(headed(tmp_path), "-d", "--format", "yaml").output


def test_people_see_bytes_as_escapes(tmp_path: Path) -> None:
    output = dump(headed(tmp_path), "-d").output
    assert "key=\\xff\\xfe  value=v  headers=a=1,a=2,b=,c,d=\\xff" in output


def test_keys_have_their_units(partition: Path) -> None:
    batch, first, *_ = (json.loads(line) for line in dump(str(partition), "-d", "-J").output.splitlines())
    assert (batch["max_timestamp_ms"], first["timestamp_ms"]) == (2_000, 1_000)
    assert batch["size_bytes"] == (partition / "00000000000000000000.log").stat().st_size
