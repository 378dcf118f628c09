"""Spark's errors in one readable sentence, with the place in the user's file where that is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.pipelines.places import Place, Text

SENTENCE_MAX: Final = 600
_POSITION: Final = re.compile(r"\bline (\d+),? pos(?:ition)? (\d+)")
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')
_RAISED: Final = re.compile(
    r"^(?:\w+\.)*(\w+(?:Error|Exception|Lost|Wrong|Unreachable|Refused|Warning|Failed)): ?(.*)", re.M
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_OURS: Final = re.compile(r"\bmoldau(?:\.\w+)+\.(\w+): (.*)")
"""The source and the sink tell their sentence in front of the traceback, behind Spark's own words."""
_STREAM_FAILED: Final = re.compile(r"terminated with exception: (.*)", re.S)
_NOISE: Final = (
    re.compile(r"^An error occurred while calling [\w.]+\s*:?\s*"),
    re.compile(r"\s*SQLSTATE: \w{5}\b.*", re.S),
    re.compile(r"^Job aborted due to stage failure: .*?(?:Lost task [^:]*: |$)", re.S),
    re.compile(r"^(?:[a-z]+\.)+[A-Z]\w+(?:Exception|Error): "),
    re.compile(r"^\[[A-Z0-9_.]+\] "),
)


class PipelineFailed(Exception):
    """A pipeline cannot go on: what, where in the user's files, and what to do."""

    def __init__(self, what: str, place: Place | None = None, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.place = place
        self.hint = hint

    def line(self) -> str:
        """All of it in one line, as events and logs carry it."""
        where = f"{self.place}: " if self.place is not None else ""
        return where + self.what + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Explained:
    sentence: str
    line: int | None = None
    position: int | None = None


def explain(text: str) -> Explained:
    """The first sentence of one of Spark's messages, and the position in the SQL that it names."""
    found = _STREAM_FAILED.search(text)
    if found is not None:
        text = found.group(1)
    where = _POSITION.search(text)
    ours = _OURS.search(text.partition(_TRACEBACK)[0]) if _TRACEBACK in text else None
    raised = [ours.groups()] if ours is not None else _RAISED.findall(text) if _TRACEBACK in text else []
    if raised:
        kind, said = raised[-1]
        sentence = f"{kind}: {said}" if said else kind
    else:
        sentence = _first_sentence(text)
    return Explained(sentence, *(map(int, where.groups()) if where is not None else ()))


def passes(error: BaseException | None) -> bool:
    """Is it trouble of a busy machine that trying again may cure? Spark gives a Python helper ten seconds to start."""
    return error is not None and any(words in str(error) for words in _PASSING)


_PASSING: Final = ("Python worker failed to connect back", "waiting for the Python worker to connect back")


def _first_sentence(text: str) -> str:
    sentence = text.strip()
    for noise in _NOISE:
        shorter = noise.sub("", sentence, count=1).strip()
        sentence = shorter or sentence
    sentence = sentence.split("\n", 1)[0].strip()
    return sentence if len(sentence) <= SENTENCE_MAX else sentence[: SENTENCE_MAX - 1] + "…"


def place_in_files(text: str, folder: Path) -> Place | None:
    """The last line of a file of the user, within the pipeline's folder, that a trace in the text names."""
    found = None
    for file, line in _FRAME.findall(text):
        path = Path(file)
        if path.is_absolute() and folder in path.parents and "site-packages" not in path.parts:
            found = Place(file, int(line))
    return found


def failed_at(error: BaseException, text: Text | None, place: Place, folder: Path, what: str) -> PipelineFailed:
    """An error met while a part of the pipeline was built."""
    said = str(error)
    explained = explain(said)
    at = place_in_files(said, folder) or (text.place if text is not None else place)
    if text is not None and explained.line is not None and explained.position is not None:
        at = text.at(explained.line, explained.position)
    # Spark's errors say what they are; a Python error such as KeyError('total') is nothing without its name.
    kind = "" if type(error).__module__.startswith(("pyspark.", "py4j.")) else f"{type(error).__name__}: "
    return PipelineFailed(f"{what}: {kind}{explained.sentence}", at, hint=hint_for(said))


_APPEND_NEEDS_A_WATERMARK: Final = ("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION", "Append output mode not supported")


_OTHER_STATE: Final = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
)


def is_curable(said: str) -> bool:
    """Could the same query, started again, do better?"""
    return not any(words in said for words in _OTHER_STATE)


def hint_for(said: str) -> str:
    if not is_curable(said):
        return "the steps changed and do not fit the state in the checkpoint: change them back, or use a new checkpoint"
    head = said[:600]
    if any(words in head for words in _APPEND_NEEDS_A_WATERMARK):
        return "set mode: update, or add a watermark to the source"
    if "STREAM" in head and "watermark" in head and "join" in head.lower():
        return "add 'watermark: {column, delay}' to the sources that are joined"
    return ""
