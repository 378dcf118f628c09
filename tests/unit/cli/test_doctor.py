"""`moldau doctor`: what its exit status says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli import doctor
from moldau.cli.doctor import ERROR, OK, WARNING, Finding
from moldau.cli.main import root
from moldau.node.clock_keeper import encode
from moldau.runtime.steady_clock import ClockState


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


def test_a_clock_in_doubt_is_shown_with_what_ends_it(tmp_path: Path) -> None:
    assert list(doctor.check_clock(tmp_path)) == []
    (tmp_path / "moldau.clock.json").write_bytes(encode(ClockState(1, 1, "", jump_ms=-864_000_000)))
    (found,) = doctor.check_clock(tmp_path)
    assert found.state == WARNING
    assert "10.0 days behind" in found.text
    assert "moldau.clock.jumps=follow" in found.fix
