"""The pipeline files of the examples have no mistakes, and their README fits on a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau import examples
from moldau.examples.__main__ import names

pytest.importorskip("yaml", reason="pipelines need the extra spark")
FOLDER = Path(examples.__file__).parent


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.yaml")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_file_is_a_pipeline_without_mistakes(file: Path) -> None:
    from moldau.pipelines.load import load_or_raise

    pipeline = load_or_raise(file, {"MOLDAU_BOOTSTRAP": "broker.example:9092"})
    assert pipeline.bootstrap == "broker.example:9092"
    assert pipeline.sinks


@pytest.mark.parametrize("name", names())
def test_the_readme_needs_five_commands_at_most(name: str) -> None:
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    assert 0 < len(commands) <= 5
    assert any(f"moldau pipeline run {name}/pipeline.yaml" in command for command in commands)
    assert len(text.splitlines()) <= 60
