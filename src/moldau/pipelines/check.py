"""Do the parts of a pipeline fit together? Pure: no Spark, no broker. What Spark must judge is in `sql_check`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from moldau.pipelines.graph import both_ways, find_cycle, inputs, is_stream, needed_for, references
from moldau.pipelines.places import Mistakes, Place, nearest
from moldau.pipelines.python_code import signature
from moldau.pipelines.spec import (
    ConsoleTarget,
    FileTarget,
    LakeTarget,
    Pipeline,
    PythonStep,
    Sink,
    SqlStep,
    StatefulStep,
    Step,
    TopicSource,
    TopicTarget,
)
from moldau.pipelines.sql_names import first_word

QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def check(pipeline: Pipeline, mistakes: Mistakes, declared: Collection[str] = ()) -> None:
    """`declared` are names of parts that could not be read: they exist, so they are not missed a second time."""
    known = list(dict.fromkeys([*pipeline.sources, *pipeline.steps, *sorted(declared)]))
    _check_names(pipeline, mistakes)
    for step in pipeline.steps.values():
        _check_step(pipeline, step, known, mistakes)
    for sink in pipeline.sinks:
        if sink.source.value not in known:
            _unknown(sink.source.value, sink.source.place, known, mistakes)
    edges = inputs(pipeline)
    cycle = find_cycle(edges)
    if cycle:
        mistakes.add(pipeline.steps[cycle[0]].place, "steps read each other in a circle: " + " <- ".join(cycle))
        return
    if not mistakes:  # what cannot be found yet would only be told twice
        _check_use(pipeline, edges, mistakes)
        for sink in pipeline.sinks:
            _check_stream(pipeline, sink, mistakes)
    for sink in pipeline.sinks:
        _check_sink(pipeline, sink, mistakes)
    if pipeline.engine == "declarative":
        _check_declarative(pipeline, mistakes)


def _check_names(pipeline: Pipeline, mistakes: Mistakes) -> None:
    """Each becomes a view, and Spark's views do not care for case: the second would silently replace the first."""
    taken: dict[str, tuple[str, str, int]] = {}
    for what, parts in (("source", pipeline.sources), ("step", pipeline.steps)):
        for name, each in parts.items():
            other, kind, line = taken.setdefault(name.lower(), (name, what, each.place.line))
            if (other, kind) == (name, what):
                continue
            same = f"'{name}' is the name of a {kind} already"
            told = same if other == name else f"'{name}' and '{other}' are one name"
            hint = f"the {kind} is at line {line}" + ("" if other == name else "; SQL does not care for case")
            mistakes.add(each.place, told, hint)


def _unknown(name: str, place: Place, known: list[str], mistakes: Mistakes) -> None:
    hint = nearest(name, known) or "sources and steps: " + ", ".join(known or ["none"])
    mistakes.add(place, f"no source or step is called '{name}'", hint)


def _check_step(pipeline: Pipeline, step: Step, known: list[str], mistakes: Mistakes) -> None:
    lower = {name.lower() for name in known}
    for reference in references(step, known, mistakes):
        if reference.name.lower() not in lower:
            _unknown(reference.name, reference.place, known, mistakes)
    if isinstance(step, SqlStep):
        _check_query(step, mistakes)
    elif isinstance(step, PythonStep):
        _check_arguments(step, known, mistakes)
    elif isinstance(step, StatefulStep):
        _check_stateful(pipeline, step, mistakes)


def _check_query(step: SqlStep, mistakes: Mistakes) -> None:
    """Anything else than a query Spark would carry out at once, again with every start of a query."""
    word = first_word(step.sql.value)
    if word not in QUERIES:
        told = f"the SQL of step '{step.name}' must be a query" + (f", not {word}" if word else "")
        mistakes.add(step.sql.place, told, "one SELECT")


def _check_arguments(step: PythonStep, known: list[str], mistakes: Mistakes) -> None:
    found = signature(step.function, is_class=False, mistakes=mistakes)
    if found is None:
        return
    names = [parameter.name for parameter in found.parameters]
    for parameter in found.parameters:
        if parameter.required and parameter.name not in (*known, *step.arguments, "spark"):
            hint = nearest(parameter.name, known) or "a parameter is 'spark', a source, a step, or given by 'with'"
            mistakes.add(step.function.place, f"{step.function} wants '{parameter.name}', which nothing gives", hint)
    for name in step.arguments:
        if name not in names and not found.takes_any:
            mistakes.add(step.place, f"{step.function} takes no argument '{name}'", nearest(name, names))


def _check_stateful(pipeline: Pipeline, step: StatefulStep, mistakes: Mistakes) -> None:
    found = signature(step.processor, is_class=True, mistakes=mistakes)
    if found is not None and not found.takes_any:
        names = [parameter.name for parameter in found.parameters]
        for name in step.arguments:
            if name not in names:
                mistakes.add(step.place, f"{step.processor} takes no argument '{name}'", nearest(name, names))
        for parameter in found.parameters:
            if parameter.required and parameter.name not in step.arguments:
                mistakes.add(step.processor.place, f"{step.processor} wants '{parameter.name}'", "give it in 'with'")
    if step.time == "event" and not _has_watermark(pipeline, step):
        mistakes.add(
            step.source.place,
            f"step '{step.name}' uses event time, and nothing it reads has a watermark",
            f"add 'watermark' to '{step.source.value}'",
        )


def _has_watermark(pipeline: Pipeline, step: StatefulStep) -> bool:
    upstream = needed_for_safely(pipeline, step.source.value)
    found = [each for name in upstream if (each := pipeline.named(name)) is not None]
    if any(isinstance(each, PythonStep) for each in found):
        return True  # it may set one itself
    return any(each.watermark is not None for each in found)


def needed_for_safely(pipeline: Pipeline, name: str) -> list[str]:
    edges = inputs(pipeline)
    return [] if find_cycle(edges) else needed_for(name, edges)


def _check_use(pipeline: Pipeline, edges: dict[str, tuple[str, ...]], mistakes: Mistakes) -> None:
    """Something that nothing reads is most often a slip of the pen."""
    used = {sink.source.value for sink in pipeline.sinks} | {name for names in edges.values() for name in names}
    for name, each in {**pipeline.sources, **pipeline.steps}.items():
        dead_letters_only = isinstance(each, TopicSource) and each.dead_letter is not None
        if name not in used and not dead_letters_only:
            what = "source" if name in pipeline.sources else "step"
            mistakes.add(each.place, f"nothing reads {what} '{name}'", "remove it, or name it in a step or sink")


def _check_stream(pipeline: Pipeline, sink: Sink, mistakes: Mistakes) -> None:
    if not is_stream(pipeline, sink.source.value) and pipeline.engine == "streaming":
        mistakes.add(
            sink.source.place,
            f"sink '{sink.name}' reads only tables, and a stream is needed to run",
            "add 'read: stream' to a source",
        )


def _check_sink(pipeline: Pipeline, sink: Sink, mistakes: Mistakes) -> None:
    if sink.trigger_ms is None:
        for name in needed_for_safely(pipeline, sink.source.value):
            step = pipeline.steps.get(name)
            if isinstance(step, StatefulStep) and step.time == "processing":
                mistakes.add(
                    step.place,
                    f"step '{step.name}' has processing-time timers, with which trigger available-now never ends",
                    "use time: event, or a trigger such as 1s",
                )
    if isinstance(sink.target, TopicTarget):
        _check_loop(pipeline, sink, sink.target, mistakes)


def _check_loop(pipeline: Pipeline, sink: Sink, target: TopicTarget, mistakes: Mistakes) -> None:
    for name in needed_for_safely(pipeline, sink.source.value):
        source = pipeline.sources.get(name)
        if (
            isinstance(source, TopicSource)
            and source.stream
            and target.topic.value in source.topics
            and source.bootstrap == target.bootstrap
        ):
            mistakes.add(
                target.topic.place,
                f"sink '{sink.name}' writes to '{target.topic.value}', which it reads through source '{name}'",
                "it would never end; choose another topic",
            )


def _check_declarative(pipeline: Pipeline, mistakes: Mistakes) -> None:
    if pipeline.trigger_ms is not None:
        mistakes.add(
            pipeline.trigger_place,
            "engine 'declarative' runs only with trigger 'available-now'",
            "add trigger: available-now",
        )
    for sink in pipeline.sinks:
        target = sink.target
        if isinstance(target, FileTarget | LakeTarget | ConsoleTarget):
            mistakes.add(
                sink.place,
                f"engine 'declarative' cannot write sink '{sink.name}'",
                "it writes 'table' and 'topic'; use engine: streaming for the others",
            )
        elif isinstance(target, TopicTarget) and sink.mode != "append":
            mistakes.add(sink.mode_place, "engine 'declarative' writes topics only in mode 'append'")
        elif sink.trigger_ms is not None:
            mistakes.add(
                sink.place, f"sink '{sink.name}' has a trigger of its own", "engine 'declarative' has one only"
            )
    if not mistakes:
        for name in both_ways(pipeline):
            found = pipeline.named(name)
            assert found is not None
            mistakes.add(
                found.place,
                f"'{name}' feeds both a streaming table and a materialized view, which must read it as a table",
                "write two sources, or two pipelines",
            )
