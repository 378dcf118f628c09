"""A pipeline as a project of Spark Declarative Pipelines: a spec, and Python definitions that people can read.

Sources and steps become temporary views, `table` sinks streaming tables or materialized views, `topic` sinks append
flows. Spark's engine then plans the whole graph, creates the tables and keeps the checkpoints.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.frames import Frames
from moldau.pipelines.graph import inputs, is_stream, needed_for, python_arguments
from moldau.pipelines.load import load_or_raise
from moldau.pipelines.options import writing
from moldau.pipelines.queries import topic_rows
from moldau.pipelines.session import Where, lasting_catalog, settings
from moldau.pipelines.spec import Pipeline, PythonStep, Sink, SqlStep, TableTarget, TopicTarget
from moldau.pipelines.sql_names import relations

SPEC_FILE: Final = "spark-pipeline.yml"
DEFINITIONS: Final = "definitions/pipeline.py"
CONF_FOLDER: Final = "conf"
# Static settings must come by the command line; the engine refuses them in the spec.
STATIC: Final = (
    "spark.sql.catalogImplementation",
    "spark.sql.warehouse.dir",
    "spark.hadoop.",
    "spark.driver.",
    "spark.python.",
)


def generate(pipeline: Pipeline, folder: Path) -> None:
    """Write the project into the folder."""
    (folder / "definitions").mkdir(parents=True, exist_ok=True)
    runtime = {name: value for name, value in _settings(pipeline).items() if not name.startswith(STATIC)}
    spec = {
        "name": pipeline.name,
        "storage": Path(pipeline.checkpoint, "engine").as_uri(),
        "libraries": [{"glob": {"include": "definitions/**"}}],
        "configuration": runtime,
    }
    # JSON is YAML too, and needs no writer with opinions.
    (folder / SPEC_FILE).write_text(json.dumps(spec, indent=2) + "\n")
    (folder / DEFINITIONS).write_text(definitions(pipeline))
    # The engine starts its server in a process that does not get `--conf`; a folder of defaults reaches both.
    (folder / CONF_FOLDER).mkdir(exist_ok=True)
    static = {name: value for name, value in _settings(pipeline).items() if name.startswith(STATIC)}
    (folder / CONF_FOLDER / "spark-defaults.conf").write_text("".join(f"{n} {v}\n" for n, v in static.items()))


def command(pipeline: Pipeline, folder: Path, where: Where) -> list[str]:
    """The command that runs a generated project."""
    import pyspark

    script = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    confs = [part for name, value in where.conf.items() for part in ("--conf", f"{name}={value}")]
    return [str(script), "--remote", where.remote or "local[*]", *confs, "run", "--spec", str(folder / SPEC_FILE)]


def _settings(pipeline: Pipeline) -> dict[str, str]:
    restarts = pipeline.restart.failures_max if pipeline.restart.policy != "never" else 0
    found = settings(pipeline, Where()) | lasting_catalog(pipeline.checkpoint)
    found |= {"spark.sql.pipelines.maxFlowRetryAttempts": str(restarts), **pipeline.spark}
    found.pop("spark.ui.showConsoleProgress", None)
    return {name: value for name, value in found.items() if name != "spark.ui.enabled"}


# -- the text --------------------------------------------------------------------------------------------------------


def definitions(pipeline: Pipeline) -> str:
    """The Python file that declares the graph."""
    edges = inputs(pipeline)
    modes = read_modes(pipeline)
    names = list(dict.fromkeys(n for sink in pipeline.sinks for n in needed_for(sink.source.value, edges)))
    parts = [
        f'"""Made by moldau from {pipeline.file.name}; what is changed here is lost with the next run."""\n\n'
        "from pyspark import pipelines as dp\n\n"
        "from moldau.pipelines.declarative import Definitions\n\n"
        f"parts = Definitions({str(pipeline.file.absolute())!r}, spark)  # noqa: F821  (the engine gives it)\n"
    ]
    parts += [_view(pipeline, name, modes) for name in names]
    parts += [_sink(pipeline, sink, modes) for sink in pipeline.sinks]
    parts += [_dead_letters(source.name) for source in pipeline.dead_letters]
    return "\n\n".join(parts)


def read_modes(pipeline: Pipeline) -> dict[str, bool]:
    """For each source and step that is used: is it read as a stream?"""
    edges = inputs(pipeline)
    modes: dict[str, bool] = {}
    for sink in pipeline.sinks:
        for name in needed_for(sink.source.value, edges):
            modes[name] = sink.mode == "append" and is_stream(pipeline, name)
    return modes


def _view(pipeline: Pipeline, name: str, modes: Mapping[str, bool]) -> str:
    head = f'@dp.temporary_view(name="{name}")\ndef {name}():\n'
    step = pipeline.steps.get(name)
    if step is None:
        return head + f'    return parts.source("{name}", stream={modes[name]})\n'
    if isinstance(step, SqlStep) and step.watermark is None and '"""' not in step.sql.value:
        text = streaming_sql(step.sql.value, modes).strip()
        body = "".join(f"        {line}\n".rstrip(" ") for line in text.splitlines())
        return head + f'    return spark.sql(  # noqa: F821\n        r"""\n{body}        """\n    )\n'
    reads = {each: modes[each] for each in inputs(pipeline)[name]}
    return head + f'    return parts.step("{name}", {reads!r})\n'


def streaming_sql(sql: str, modes: Mapping[str, bool]) -> str:
    """The engine wants streams to be read as `STREAM(name)`."""
    spelled = {name.lower(): stream for name, stream in modes.items()}
    for relation in reversed(relations(sql)):
        if spelled.get(relation.name.lower()):
            end = relation.index + len(relation.name)
            if sql[relation.index] == "`":
                end += 2
            sql = f"{sql[: relation.index]}STREAM({sql[relation.index : end]}){sql[end:]}"
    return sql


def _sink(pipeline: Pipeline, sink: Sink, modes: Mapping[str, bool]) -> str:
    source = sink.source.value
    read = f'spark.readStream.table("{source}")' if modes[source] else f'spark.read.table("{source}")'
    function = "to_" + "".join(c if c.isalnum() else "_" for c in sink.name)
    if isinstance(sink.target, TableTarget):
        kind = "table" if sink.mode == "append" and modes[source] else "materialized_view"
        more = f", partition_cols={list(sink.target.partition_by)!r}" if sink.target.partition_by else ""
        if sink.target.format is not None:
            more += f', format="{sink.target.format}"'
        return f'@dp.{kind}(name="{sink.target.table}"{more})\ndef {function}():\n    return {read}  # noqa: F821\n'
    assert isinstance(sink.target, TopicTarget)
    given = {**writing(sink.target), **sink.options}
    return (
        f'dp.create_sink("{function}", "moldau", {given!r})\n\n\n'
        f'@dp.append_flow(target="{function}", name="{function}_flow")\ndef {function}():\n'
        f'    return parts.topic_rows("{sink.name}", {read})  # noqa: F821\n'
    )


def _dead_letters(source: str) -> str:
    function = f"dead_letters_of_{source}"
    return (
        f'dp.create_sink("{function}", "moldau", parts.dead_letter_options("{source}"))\n\n\n'
        f'@dp.append_flow(target="{function}", name="{function}_flow")\ndef {function}():\n'
        f'    return parts.dead_letters("{source}")\n'
    )


# -- used by the generated file --------------------------------------------------------------------------------------


class Definitions:
    """The parts of a pipeline that the generated definitions ask for when the engine plans the graph."""

    def __init__(self, file: str, spark: Any) -> None:
        self._spark = spark
        self._pipeline = load_or_raise(Path(file), os.environ)
        self._group = f"pipeline.{self._pipeline.name}"

    def source(self, name: str, *, stream: bool) -> Any:
        frames = Frames(self._spark, self._pipeline, tables_only=not stream, declared=True)
        return frames.source(self._pipeline.sources[name], self._group)

    def step(self, name: str, modes: Mapping[str, bool]) -> Any:
        step = self._pipeline.steps[name]
        reads = {each: self._read(each, stream) for each, stream in modes.items()}
        frames = Frames(self._spark, self._pipeline, declared=True)
        if isinstance(step, PythonStep):
            _, views = python_arguments(step, reads)
            return frames.step(step, {each: reads[each]() for each in views})
        if isinstance(step, SqlStep):
            return frames.watermarked(step, self._spark.sql(streaming_sql(step.sql.value, modes)))
        return frames.step(step, {step.source.value: reads[step.source.value]()})

    def topic_rows(self, sink: str, frame: Any) -> Any:
        target = next(each.target for each in self._pipeline.sinks if each.name == sink)
        assert isinstance(target, TopicTarget)
        return topic_rows(frame, target, may_ask=False)

    def dead_letters(self, source: str) -> Any:
        found = next(each for each in self._pipeline.dead_letters if each.name == source)
        return Frames(self._spark, self._pipeline, declared=True).dead_letters(
            found, f"{self._group}.dead_letter.{source}"
        )

    def dead_letter_options(self, source: str) -> dict[str, str]:
        found = next(each for each in self._pipeline.dead_letters if each.name == source)
        assert found.dead_letter is not None
        return writing(TopicTarget(topic=found.dead_letter, bootstrap=found.bootstrap, kafka=found.kafka))

    def _read(self, name: str, stream: bool) -> Any:
        if stream:
            return lambda: self._spark.readStream.table(name)
        return lambda: self._spark.read.table(name)
