"""What `moldau up` says when the broker is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli import up, version


def greeting(capsys: pytest.CaptureFixture[str]) -> str:
    up._greet(Path("moldau-data"), "localhost:9092", 0.3, False)
    return capsys.readouterr().out


def test_a_missing_compiler_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "hot_path_is_compiled", lambda: False)
    assert "uncompiled, about five times slower" in greeting(capsys)
    monkeypatch.setattr(version, "hot_path_is_compiled", lambda: True)
    assert "uncompiled" not in greeting(capsys)
