"""Who reads whom: the inputs of each step, an order in which they can be built, what a sink depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.pipelines.places import Mistakes, Place
from moldau.pipelines.python_code import signature
from moldau.pipelines.spec import Pipeline, PythonStep, SqlStep, StatefulStep, Step
from moldau.pipelines.sql_names import relations


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    place: Place


def references(step: Step, known: Iterable[str], mistakes: Mistakes) -> list[Reference]:
    """The views a step reads, as it names them. `known` is needed to tell a Python step's views from its arguments."""
    if isinstance(step, SqlStep):
        return [Reference(found.name, step.sql.at_index(found.index)) for found in relations(step.sql.value)]
    if isinstance(step, StatefulStep):
        return [Reference(step.source.value, step.source.place)]
    found = signature(step.function, is_class=False, mistakes=mistakes)
    known = set(known)
    if found is None:
        return []
    return [
        Reference(parameter.name, found.place)
        for parameter in found.parameters
        if parameter.name in known and parameter.name not in step.arguments
    ]


def inputs(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """For each step the names of the sources and steps it reads."""
    known = {**pipeline.sources, **pipeline.steps}
    spelled = {name.lower(): name for name in known}  # SQL does not care for case
    found: dict[str, tuple[str, ...]] = {}
    for name, step in pipeline.steps.items():
        names = (spelled.get(each.name.lower()) for each in references(step, known, Mistakes()))
        found[name] = tuple(dict.fromkeys(n for n in names if n is not None))
    return found


def find_cycle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Names along a cycle, the first repeated at the end; empty when there is none."""
    state: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> list[str]:
        state[name] = 1
        path.append(name)
        for other in edges.get(name, ()):
            if state.get(other) == 1:
                return [*path[path.index(other) :], other]
            if other in edges and other not in state:
                cycle = visit(other)
                if cycle:
                    return cycle
        path.pop()
        state[name] = 2
        return []

    for name in edges:
        if name not in state:
            cycle = visit(name)
            if cycle:
                return cycle
    return []


def needed_for(name: str, edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Everything `name` depends on and itself, inputs before those who read them."""
    order: list[str] = []

    def visit(each: str) -> None:
        if each in order:
            return
        for other in edges.get(each, ()):
            visit(other)
        order.append(each)

    visit(name)
    return order


def is_stream(pipeline: Pipeline, name: str) -> bool:
    """Does anything it depends on never end?"""
    edges = inputs(pipeline)
    return any(each in pipeline.sources and pipeline.sources[each].stream for each in needed_for(name, edges))


def python_arguments(step: PythonStep, known: Iterable[str]) -> tuple[bool, list[str]]:
    """Does the function want the session, and which views does it want?"""
    found = signature(step.function, is_class=False, mistakes=Mistakes())
    known = set(known)
    if found is None:
        return False, []
    names = [parameter.name for parameter in found.parameters if parameter.name not in step.arguments]
    return "spark" in names and "spark" not in known, [name for name in names if name in known]


def both_ways(pipeline: Pipeline) -> list[str]:
    """Streams that are needed as a stream by one sink and as a table by another."""
    edges = inputs(pipeline)
    wanted: dict[str, set[bool]] = {}
    for sink in pipeline.sinks:
        for name in needed_for(sink.source.value, edges):
            if is_stream(pipeline, name):
                wanted.setdefault(name, set()).add(sink.mode == "append")
    return [name for name, ways in wanted.items() if len(ways) > 1]
