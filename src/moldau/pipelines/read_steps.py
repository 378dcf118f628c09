"""The `steps` of a pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moldau.pipelines.nodes import Node
from moldau.pipelines.places import Mistakes
from moldau.pipelines.section import Section
from moldau.pipelines.spec import PythonStep, SqlStep, StatefulStep, Step

KINDS: Final = ("sql", "python", "stateful")
KEYS: Final = {
    "sql": ("name", "sql", "watermark"),
    "python": ("name", "python", "with", "watermark"),
    "stateful": ("name", "stateful", "watermark"),
}
STATEFUL_KEYS: Final = ("processor", "from", "by", "output", "time", "mode", "rows", "event_time_column", "with")


def read_steps(nodes: list[Node], base: Path, mistakes: Mistakes) -> dict[str, Step]:
    found: dict[str, Step] = {}
    for number, node in enumerate(nodes, 1):
        step = _read_step(node, number, base, mistakes)
        if step is None:
            continue
        if step.name in found:
            earlier = found[step.name].place.line
            mistakes.add(step.place, f"there are two steps called '{step.name}'", f"the first is at line {earlier}")
            continue
        found[step.name] = step
    return found


def _read_step(node: Node, number: int, base: Path, mistakes: Mistakes) -> Step | None:
    section = Section(node, f"step {number}", base, mistakes)
    name = section.name("name", required=True)
    if name is not None:
        section.what = f"step '{name.value}'"
    kind = section.kind(KINDS)
    if kind is None:
        section.allow(dict.fromkeys(key for keys in KEYS.values() for key in keys))
        section.watermark()
        return None
    section.allow(KEYS[kind])
    # A step without a name is still looked through for its other mistakes.
    label = name.value if name is not None else f"step_{number}"
    return _READERS[kind](label, section, base)


def _sql_step(name: str, section: Section, base: Path) -> SqlStep | None:
    sql = section.text("sql", required=True)
    watermark = section.watermark()
    return None if sql is None else SqlStep(name=name, place=section.place, sql=sql, watermark=watermark)


def _python_step(name: str, section: Section, base: Path) -> PythonStep | None:
    function = section.python("python", "transforms.py:enrich")
    arguments = section.arguments("with")
    watermark = section.watermark()
    if function is None:
        return None
    return PythonStep(name=name, place=section.place, function=function, arguments=arguments, watermark=watermark)


def _stateful_step(name: str, outer: Section, base: Path) -> StatefulStep | None:
    node = outer.node("stateful")
    assert node is not None
    section = Section(node, f"'stateful' of {outer.what}", base, outer.mistakes)
    section.allow(STATEFUL_KEYS)
    processor = section.python("processor", "sessions.py:Sessions")
    source = section.name("from", required=True)
    output = section.text("output", required=True)
    by = section.names("by", required=True)
    step_time = section.choice("time", ("event", "processing", "none"), "none")
    mode = section.choice("mode", ("append", "update"), "append")
    rows = section.choice("rows", ("row", "pandas"), "row")
    watermark = outer.watermark()
    arguments = section.arguments("with")
    event_time_column = section.string("event_time_column") or None
    if processor is None or source is None or output is None:
        return None
    return StatefulStep(
        name=name,
        place=outer.place,
        processor=processor,
        source=source,
        by=by,
        output=output,
        time=step_time,
        mode=mode,
        pandas=rows == "pandas",
        event_time_column=event_time_column,
        arguments=arguments,
        watermark=watermark,
    )


_READERS: Final = {"sql": _sql_step, "python": _python_step, "stateful": _stateful_step}
