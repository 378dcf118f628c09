"""`moldau doctor`: what its exit status says."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from moldau.cli import doctor
from moldau.cli.doctor import ERROR, OK, WARNING, Finding
from moldau.cli.main import root


@pytest.mark.parametrize(
    ("state", "strict", "status"),
    [(OK, False, 0), (OK, True, 0), (WARNING, False, 0), (WARNING, True, 1), (ERROR, False, 1), (ERROR, True, 1)],
)
def test_only_errors_fail_unless_asked(state: str, strict: bool, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_system", "check_spark", "check_settings", "check_cluster"):
        monkeypatch.setattr(doctor, check, lambda *_: [])
    monkeypatch.setattr(doctor, "check_environment", lambda: [Finding("environment", state, "something")])
    options = ["--strict"] if strict else []
    result = CliRunner().invoke(root, ["doctor", "-b", "localhost:1", *options])
    assert result.exit_code == status
    assert (
        result.output.splitlines()[-1].strip()
        == {
            OK: "0 errors, 0 warnings.",
            WARNING: "0 errors, 1 warning.",
            ERROR: "1 error, 0 warnings.",
        }[state]
    )
    (row,) = json.loads(CliRunner().invoke(root, ["doctor", "-b", "localhost:1", "--json"]).output)
    assert (row["area"], row["state"]) == ("environment", state)


def test_a_wrong_use_is_status_2() -> None:
    assert CliRunner().invoke(root, ["doctor", "--no-such-option"]).exit_code == 2
