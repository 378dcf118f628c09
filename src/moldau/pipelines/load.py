"""From a file to a `Pipeline`: read the tree, put in variables, read every part, check that the parts fit together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.pipelines.check import check
from moldau.pipelines.nodes import Node, parse_yaml, substitute
from moldau.pipelines.places import Mistakes, PipelineMistaken, Place
from moldau.pipelines.read_sinks import read_sinks, read_trigger
from moldau.pipelines.read_sources import Defaults, read_sources
from moldau.pipelines.read_steps import read_steps
from moldau.pipelines.section import FREE_NAME, Section
from moldau.pipelines.spec import Pipeline, Restart

KEYS: Final = (
    "pipeline", "bootstrap", "kafka", "engine", "trigger", "checkpoint", "restart", "spark", "sources", "steps",
    "sinks",
)  # fmt: skip
RESTART_KEYS: Final = ("policy", "max", "within", "backoff", "backoff_max")
FILE_BYTES_MAX: Final = 4 * 1024 * 1024


def load(path: Path, variables: Mapping[str, str], mistakes: Mistakes) -> Pipeline | None:
    """The pipeline of a file, with all that is wrong told; None when too little could be read."""
    tree = read_tree(path, variables, mistakes)
    if tree is None:
        return None
    # The commands that look at clusters take the same variable, so that `list` finds what `run` started.
    bootstrap = variables.get("MOLDAU_BOOTSTRAP") or "localhost:9092"
    pipeline = read_pipeline(substitute(tree, variables, mistakes), path, bootstrap, mistakes)
    if pipeline is not None:
        check(pipeline, mistakes, declared(tree))
    return pipeline


def declared(tree: Node) -> set[str]:
    """Every name that is given to a source or step, also where the rest could not be read."""
    parts = tree.value if isinstance(tree.value, dict) else {}
    sources = parts["sources"].value if "sources" in parts else {}
    steps = parts["steps"].value if "steps" in parts else []
    found = set(sources) if isinstance(sources, dict) else set()
    for step in steps if isinstance(steps, list) else []:
        name = step.value.get("name") if isinstance(step.value, dict) else None
        if name is not None and isinstance(name.value, str):
            found.add(name.value)
    return found


def load_or_raise(path: Path, variables: Mapping[str, str]) -> Pipeline:
    """Like `load`, for those who need a pipeline without mistakes."""
    mistakes = Mistakes()
    pipeline = load(path, variables, mistakes)
    if mistakes or pipeline is None:
        raise PipelineMistaken(mistakes.found)
    return pipeline


def read_tree(path: Path, variables: Mapping[str, str], mistakes: Mistakes) -> Node | None:
    if path.suffix == ".py":
        from moldau.pipelines.python_file import run_python_file

        return run_python_file(path, variables, mistakes)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            mistakes.add(Place(str(path), 1), f"the file is larger than {FILE_BYTES_MAX >> 20} MiB")
            return None
        source = path.read_text()
    except OSError as error:
        mistakes.add(Place(str(path), 1), f"the file cannot be read: {error.strerror}")
        return None
    except UnicodeDecodeError:
        mistakes.add(Place(str(path), 1), "the file is not text in UTF-8")
        return None
    return parse_yaml(source, str(path), mistakes)


def read_pipeline(tree: Node, path: Path, bootstrap: str, mistakes: Mistakes) -> Pipeline | None:
    base = path.absolute().parent
    section = Section(tree, "the pipeline", base, mistakes)
    if not section.readable:
        return None
    section.allow(KEYS)
    name = section.name("pipeline", FREE_NAME, required=True)
    label = name.value if name is not None else "unnamed"
    defaults = Defaults(base, section.bootstrap(bootstrap), section.client_settings("kafka"))
    trigger_ms = read_trigger(section, 1_000)
    sources = read_sources(_mapping(section, "sources"), defaults, mistakes)
    steps = read_steps(_list(section, "steps", required=False), base, mistakes)
    sinks = read_sinks(_list(section, "sinks", required=True), defaults, trigger_ms, mistakes)
    return Pipeline(
        name=label,
        file=path,
        place=section.place,
        bootstrap=defaults.bootstrap,
        kafka=defaults.kafka,
        engine=section.choice("engine", ("streaming", "declarative"), "streaming"),
        trigger_ms=trigger_ms,
        trigger_place=section.value_place("trigger"),
        checkpoint=section.path("checkpoint", default=f".moldau/{label}"),
        checkpoint_place=section.value_place("checkpoint"),
        restart=_restart(section, base, mistakes),
        spark=section.options("spark"),
        sources=sources,
        steps=steps,
        sinks=sinks,
    )


def _mapping(section: Section, key: str) -> dict[str, Node]:
    node = section.node(key)
    if node is None or node.value in (None, {}):
        section.mistakes.add(section.key_place(key), f"the pipeline needs '{key}'")
        return {}
    return section.children(key)


def _list(section: Section, key: str, *, required: bool) -> list[Node]:
    node = section.node(key)
    if node is None or node.value is None or node.value == []:
        if required:
            section.mistakes.add(section.key_place(key), f"the pipeline needs '{key}'")
        return []
    if not isinstance(node.value, list):
        section.mistakes.add(node.place, f"'{key}' must be a list, not {node.kind}", "each entry begins with '- '")
        return []
    return node.value


def _restart(outer: Section, base: Path, mistakes: Mistakes) -> Restart:
    node = outer.node("restart")
    if node is None or node.value is None:
        return Restart()
    if isinstance(node.value, str):
        return Restart(policy=outer.choice("restart", ("on-failure", "never"), "on-failure"))
    section = Section(node, "'restart'", base, mistakes)
    section.allow(RESTART_KEYS)
    usual = Restart()
    given_max = section.integer("max", minimum=0)
    return Restart(
        policy=section.choice("policy", ("on-failure", "never"), usual.policy),
        failures_max=usual.failures_max if given_max is None else given_max,
        within_ms=section.duration_ms("within", usual.within_ms),
        backoff_ms=section.duration_ms("backoff", usual.backoff_ms),
        backoff_max_ms=section.duration_ms("backoff_max", usual.backoff_max_ms),
    )
