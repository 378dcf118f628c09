from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from moldau.cli.errors import CATALOGUE, PlainError
from moldau.cli.main import SUBCOMMANDS, root
from moldau.cli.output import human_bytes, to_yaml
from moldau.client.cluster import parse_bootstrap


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_table_and_the_command_agree_on_the_summary(name: str) -> None:
    entry = SUBCOMMANDS[name]
    command = getattr(importlib.import_module(entry.module), entry.attribute)
    assert isinstance(command, click.Command)
    assert command.help == entry.summary


def test_help_lists_every_command_without_importing_any() -> None:
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from moldau.cli.main import root\n"
        "result = CliRunner().invoke(root, ['--help'])\n"
        "print(result.output)\n"
        "heavy = [m for m in ('asyncio', 'rich', 'moldau.wire', 'moldau.config', 'moldau.node') if m in sys.modules]\n"
        "print('HEAVY', heavy)\n"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for name in SUBCOMMANDS:
        assert f"  {name} " in output
    assert "HEAVY []" in output


def test_an_unknown_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(root, ["topics"])
    assert result.exit_code == 2
    assert "Did you mean 'topic'?" in result.output


def test_nobody_at_the_address_is_told_in_plain_words() -> None:
    result = CliRunner().invoke(root, ["topic", "list", "-b", "127.0.0.1:1", "--timeout", "2"], standalone_mode=True)
    assert result.exit_code == 1
    assert "error[MD-1001]: no broker answers" in result.output
    assert "127.0.0.1:1" in result.output
    assert "moldau up" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["", "host:", "host:99999", "host:x", ","])
def test_a_bad_bootstrap_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bootstrap(text)


def test_bootstrap_addresses_default_to_9092_and_take_ipv6() -> None:
    assert parse_bootstrap("a, b:1,[::1]:2,[::1]") == [("a", 9092), ("b", 1), ("::1", 2), ("::1", 9092)]


def test_every_error_code_is_explained_and_used() -> None:
    result = CliRunner().invoke(root, ["explain"])
    assert [line.split()[0] for line in result.output.splitlines()] == list(CATALOGUE)
    one = CliRunner().invoke(root, ["explain", "md-1001"])
    assert CATALOGUE["MD-1001"].text in one.output
    assert CliRunner().invoke(root, ["explain", "MD-9999"]).exit_code == 2


def test_an_error_has_what_where_why_and_fix() -> None:
    error = PlainError("MD-1002", "the port is in use", facts=[("listen", "a:1"), ("why", "busy")], fixes=["x", "or y"])
    assert error.lines() == [
        "error[MD-1002]: the port is in use",
        "  listen    a:1",
        "  why       busy",
        "  fix       x",
        "            or y",
    ]


def test_yaml_output_reads_back_the_same() -> None:
    data = {"a": [{"b": 1, "c": ["x"]}, {"b": None}], "odd key": "s: y", "empty": [], "nested": {"d": True}}
    lines = list(to_yaml(data))
    assert lines[0] == "a:"
    assert "  - b: 1" in lines
    assert '"odd key": "s: y"' in lines
    assert "  d: true" in lines


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB")])
def test_sizes_are_written_for_people(count: int, text: str) -> None:
    assert human_bytes(count) == text


def test_config_explain_prints_json_on_request() -> None:
    result = CliRunner().invoke(root, ["config", "explain", "log.retention.ms", "--format", "json"])
    assert result.exit_code == 0, result.output
    assert "log.retention.ms" in json.dumps(json.loads(result.output))
    wrong = CliRunner().invoke(root, ["config", "explain", "log.retention.mss"])
    assert wrong.exit_code == 2
    assert "log.retention.ms" in wrong.output


def test_down_fails_under_the_title_that_explain_gives(tmp_path: Path) -> None:
    result = CliRunner().invoke(root, ["down", "--data-dir", str(tmp_path)])
    assert f"error[MD-3002]: {CATALOGUE['MD-3002'].title}" in result.output
