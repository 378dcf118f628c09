"""Profiles: one name for an address, and what beats what."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from moldau.cli import profiles
from moldau.cli.main import root
from moldau.cli.quantities import SECONDS
from moldau.cli.session import BOOTSTRAP, TIMEOUT


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "settings" / "profiles.toml"
    monkeypatch.setenv("MOLDAU_PROFILES", str(place))
    for name in ("MOLDAU_PROFILE", "MOLDAU_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return place


def moldau(*words: str) -> Result:
    return CliRunner().invoke(root, list(words))


@click.command()
@BOOTSTRAP
@TIMEOUT
def where(bootstrap: str, timeout_s: float) -> None:
    click.echo(f"{bootstrap} {timeout_s:g}")


def asked(*words: str, **env: str) -> str:
    return CliRunner().invoke(where, list(words), env=env).output.strip()


def test_a_profile_is_set_listed_used_and_deleted(file: Path) -> None:
    assert moldau("profile", "set", "prod", "-b", "kafka:9092", "--timeout", "30s").exit_code == 0
    assert moldau("profile", "set", "dev", "-b", "localhost:9192").exit_code == 0
    rows = json.loads(moldau("profile", "list", "--json").output)
    assert rows == [
        {"profile": "prod", "bootstrap": "kafka:9092", "timeout": "30s"},
        {"profile": "dev", "bootstrap": "localhost:9192", "timeout": None},
    ]
    assert asked("--profile", "prod") == "kafka:9092 30"
    assert asked(MOLDAU_PROFILE="dev") == "localhost:9192 10"
    assert moldau("profile", "delete", "prod").exit_code == 0
    assert list(profiles.read()) == ["dev"]


def test_what_is_typed_beats_what_lies_about() -> None:
    profiles.write(profiles.Profile("prod", "kafka:9092"))
    assert asked() == "localhost:9092 10"
    assert asked("--profile", "prod", "-b", "other:1") == "other:1 10"
    assert asked("--profile", "prod", MOLDAU_BOOTSTRAP="env:1") == "kafka:9092 10"
    assert asked(MOLDAU_PROFILE="prod", MOLDAU_BOOTSTRAP="env:1") == "env:1 10"
    assert asked("--profile", "prod", "--timeout", "5s") == "kafka:9092 5"


def test_a_variable_that_names_no_profile_loses_against_an_address() -> None:
    assert asked("-b", "typed:1", MOLDAU_PROFILE="gone") == "typed:1 10"
    assert asked(MOLDAU_PROFILE="gone", MOLDAU_BOOTSTRAP="env:1") == "env:1 10"
    profiles.write(profiles.Profile("prod", "kafka:9092"))
    assert asked("--profile", "prod", MOLDAU_PROFILE="gone") == "kafka:9092 10"
    assert "error[MD-2010]: unknown profile" in CliRunner().invoke(where, env={"MOLDAU_PROFILE": "gone"}).output


def test_a_file_with_mistakes_loses_against_an_address(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("a = [")
    assert asked("-b", "typed:1", MOLDAU_PROFILE="a") == "typed:1 10"
    assert "MD-2006" in CliRunner().invoke(where, env={"MOLDAU_PROFILE": "a"}).output


@pytest.mark.parametrize(("typed", "kept"), [("2", "2s"), ("0.5", "0.5s"), ("1e2", "100s"), ("1m30s", "1m30s")])
def test_a_bare_timeout_is_seconds(typed: str, kept: str) -> None:
    result = moldau("profile", "set", "near", "-b", "localhost:1", "--timeout", typed)
    assert result.exit_code == 0, result.output
    assert profiles.read()["near"].timeout == kept
    assert asked("--profile", "near") == f"localhost:1 {SECONDS.convert(typed, None, None):g}"


def test_other_lines_of_the_file_stay(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('# ours\n[a]\nbootstrap = "a:1"\n\n# theirs\n[b]\nbootstrap = "b:1"  # two\n')
    profiles.write(profiles.Profile("a", "a:2"))
    assert file.read_text() == '# ours\n[b]\nbootstrap = "b:1"  # two\n\n[a]\nbootstrap = "a:2"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a]\nbootstrap = 5\n", "[a] needs bootstrap"),
        ('[a]\nbootstrap = "x:1"\nport = "1"\n', "[a] has no key 'port'"),
        ("a = [", "end of document"),
    ],
)
def test_a_file_with_mistakes_is_told_and_kept(file: Path, text: str, why: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    for words in (("profile", "list"), ("profile", "set", "b", "-b", "x:1"), ("topic", "list", "--profile", "a")):
        result = moldau(*words)
        assert result.exit_code == 1
        assert why in result.output
    assert file.read_text() == text


def test_an_unknown_profile_is_told() -> None:
    result = moldau("topic", "list", "--profile", "prod")
    assert (result.exit_code, "error[MD-2010]: unknown profile" in result.output) == (1, True)
    assert moldau("profile", "delete", "prod").exit_code == 1
    assert moldau("profile", "set", "a b", "-b", "x:1").exit_code == 2
    assert moldau("profile", "set", "a", "-b", "x:y").exit_code == 2
    assert moldau("profile", "set", "a", "-b", "x:1", "--timeout", "soon").exit_code == 2


def test_help_names_the_variables() -> None:
    output = moldau("topic", "list", "--help").output
    assert "MOLDAU_BOOTSTRAP" in output
    assert "MOLDAU_PROFILE" in output
