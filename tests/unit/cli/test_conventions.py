"""What all verbs have in common: how results are printed, and how durations and moments are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from moldau.cli.main import SUBCOMMANDS, root
from moldau.cli.output import FORMAT, FORMATS, Deeds, head, print_facts, print_rows
from moldau.cli.quantities import MINUTES, MOMENT, SECONDS, Seconds

SHOWS_NOTHING = {"up", "down", "logs", "demo", "pipeline run", "completion"}
"""Verbs that run or follow something until it ends, or print a script."""
PERCENT = {"consume"}
"""Prints records, and has a language of its own for `--format`; `json` is a word of it."""


def verbs() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(root)
    for name in SUBCOMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for sub, leaf in command.commands.items():
                yield f"{name} {sub}", leaf
        else:
            yield name, command


VERBS = dict(verbs())


@pytest.mark.parametrize("name", [name for name in VERBS if name not in SHOWS_NOTHING])
def test_every_verb_that_tells_something_takes_format_and_json(name: str) -> None:
    options = {opt: param for param in VERBS[name].params for opt in param.opts}
    assert "--json" in options
    assert options["-J"] is options["--json"]
    if name not in PERCENT:
        kind = options["--format"].type
        assert isinstance(kind, click.Choice)
        assert tuple(kind.choices) == FORMATS


def test_options_of_one_name_have_one_meaning() -> None:
    """The short letters of the options that many verbs share."""
    letters = {"-b": "--bootstrap-server", "-J": "--json", "-y": "--yes", "-o": "--offset"}
    for name, command in VERBS.items():
        for param in command.params:
            for short in set(param.opts) & set(letters):
                assert letters[short] in param.opts, f"{name} {short}"


def test_options_that_wait_take_durations() -> None:
    for name, command in VERBS.items():
        for param in command.params:
            if isinstance(param.name, str) and param.name.endswith("_s"):
                assert isinstance(param.type, Seconds), f"{name} {param.opts}"


@click.command()
@FORMAT
def echo(format_: str) -> None:
    click.echo(format_)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], "table"),
        (["--json"], "json"),
        (["-J"], "json"),
        (["--format", "yaml"], "yaml"),
        (["--format", "json"], "json"),
    ],
)
def test_json_is_short_for_its_format(words: list[str], chosen: str) -> None:
    assert CliRunner().invoke(echo, words).output == f"{chosen}\n"


def test_deeds_are_sentences_for_people_and_one_document_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    for format_ in ("table", "json"):
        deeds = Deeds(format_)
        deeds.tell("created a", topic="a", created=True)
        deeds.tell("created b", topic="b", created=True)
        deeds.close()
    words, _, document = capsys.readouterr().out.partition("[")
    assert words == "created a\ncreated b\n"
    assert [row["topic"] for row in json.loads("[" + document)] == ["a", "b"]


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("size_bytes", "size"),
        ("lag_s", "lag (s)"),
        ("batch_ms", "batch (ms)"),
        ("rows_in_per_s", "rows/s in"),
        ("seen_ago_s", "seen (s ago)"),
        ("state_bytes", "state size"),
        ("transactional_id", "transactional id"),
        ("partitions", "partitions"),
    ],
)
def test_keys_become_heads(key: str, title: str) -> None:
    assert head(key) == title


def test_numbers_stand_to_the_right_also_where_all_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"committed": None, "new": 5}], "table", numbers=("committed",))
    assert capsys.readouterr().out == "COMMITTED  NEW\n        -    5\n"


def test_numbers_stand_to_the_right_also_beside_words(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"committed": "no commit", "size_bytes": 73}, {"committed": 5, "size_bytes": 2048}], "table")
    print_facts({"producer_id": 7}, "table")
    assert capsys.readouterr().out == "COMMITTED     SIZE\nno commit     73 B\n        5  2.0 KiB\nproducer id   7\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("10", 10.0), ("0.5", 0.5), ("10s", 10.0), ("1h30m", 5400.0), ("1 min", 60.0)]
)
def test_durations_in_options(text: str, seconds: float) -> None:
    assert SECONDS.convert(text, None, None) == seconds


def test_a_bare_number_keeps_its_unit() -> None:
    assert MINUTES.convert("15", None, None) == 900.0
    assert MINUTES.convert("15s", None, None) == 15.0
    assert MOMENT.convert("5", None, None) == 5
    assert MOMENT.convert("2023-11-14T22:13:20Z", None, None) == 1_700_000_000_000


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "list", "--timeout", "soon"),
        ("produce", "t", "--timestamp", "soon"),
        ("consume", "t", "-o", "soon"),
        ("topic", "trim", "t", "-o", "soon"),
        ("group", "seek", "g", "--to", "soon"),
        ("config", "set", "topic", "t", "retention.ms=7 fortnights"),
        ("topic", "create", "t", "-c", "segment.bytes=1h"),
    ],
)
def test_what_is_no_time_or_size_is_a_wrong_use(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(root, list(words))
    assert result.exit_code == 2
    assert "10m" in result.output or "64MiB" in result.output


def test_explain_as_a_document() -> None:
    (first, *_) = json.loads(CliRunner().invoke(root, ["explain", "--json"]).output)
    assert first["code"] == "MD-1001"
    assert json.loads(CliRunner().invoke(root, ["explain", "MD-1002", "-J"]).output)["title"] == "the port is in use"


def test_validate_as_a_document(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "p.yaml"
    file.write_text("pipeline: p\n")
    result = CliRunner().invoke(root, ["pipeline", "validate", str(file), "--json"])
    (row,) = json.loads(result.output)
    assert (result.exit_code, row["fine"]) == (1, False)
    assert [mistake["what"] for mistake in row["mistakes"]] == [
        "the pipeline needs 'sinks'",
        "the pipeline needs 'sources'",
    ]
