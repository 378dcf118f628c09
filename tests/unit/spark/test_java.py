"""Which Java Spark would start, and what people read when it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.spark import java


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25.0.1" 2026-01-20', 25),
        ("command not found", None),
    ],
)
def test_the_major_version_is_read_from_what_java_says(text: str, major: int | None) -> None:
    assert java.parse_major(text) == major


def fake_java(home: Path, version: str) -> None:
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java.find_java()
    assert (found.major, found.path) == (21, str(tmp_path / "bin" / "java"))


def test_an_old_java_is_named_with_the_way_to_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(java.JavaUnusable) as refused:
        java.find_java()
    assert "Java 17 or newer" in str(refused.value)
    assert "Java 11" in str(refused.value)
    assert "apt-get install openjdk-17-jre-headless" in str(refused.value)
    assert "unset JAVA_HOME" in str(refused.value)  # it would hide the new one


def test_no_java_at_all_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaUnusable, match="PATH was searched") as refused:
        java.find_java()
    assert "unset" not in str(refused.value)


def test_a_java_that_does_not_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("not a program")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert not os.access(tmp_path / "bin" / "java", os.X_OK)
    with pytest.raises(java.JavaUnusable, match="does not run"):
        java.find_java()


def test_as_a_program_it_answers_with_a_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.main() == 0
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    assert java.main() == 1
    assert "Spark needs Java 17" in capsys.readouterr().out
