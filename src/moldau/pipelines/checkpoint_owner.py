"""Whose checkpoint is it? A folder remembers the pipeline that first used it.

Two pipelines with one folder and a sink of the same name would go on where the other one stopped: records would be left
out without a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from moldau.pipelines.places import Mistakes
from moldau.pipelines.session import is_local_path
from moldau.pipelines.spec import Pipeline

FILE: Final = ".pipeline"  # no sink's folder has such a name


def claim_checkpoint(pipeline: Pipeline, mistakes: Mistakes) -> None:
    """Write the pipeline's name into its checkpoint folder; a mistake if another name is there already."""
    if not is_local_path(pipeline.checkpoint):
        return  # only Spark can look there
    folder = Path(unquote(urlparse(pipeline.checkpoint).path) if ":" in pipeline.checkpoint else pipeline.checkpoint)
    try:
        owner = (folder / FILE).read_text(encoding="utf-8").strip()
    except OSError:
        owner = ""
    if owner in ("", pipeline.name):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FILE).write_text(pipeline.name + "\n", encoding="utf-8")
        except OSError as error:
            mistakes.add(pipeline.checkpoint_place, f"the checkpoint cannot be written: {folder}: {error.strerror}")
        return
    mistakes.add(
        pipeline.checkpoint_place,
        f"{folder} is the checkpoint of pipeline '{owner}'",
        f"choose another folder; if '{owner}' is '{pipeline.name}' under an older name, remove {folder / FILE}",
    )
