"""Are the optional packages that a pipeline's parts need installed here?"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Final

from moldau.pipelines.places import Mistakes, Place
from moldau.pipelines.spec import LakeTarget, Pipeline, TopicSource

NEEDED: Final = {"delta": "deltalake", "iceberg": "pyiceberg", "avro": "fastavro"}
"""The package of each extra of moldau."""


def check_packages(pipeline: Pipeline, mistakes: Mistakes) -> None:
    """Found missing only by the first batch, they would cost every restart that the pipeline has."""
    for extra, what, place in _needs(pipeline):
        if importlib.util.find_spec(NEEDED[extra]) is None:
            mistakes.add(place, f"{what} needs the package '{NEEDED[extra]}'", f'pip install "moldau[{extra}]"')


def _needs(pipeline: Pipeline) -> Iterator[tuple[str, str, Place]]:
    for source in pipeline.sources.values():
        if isinstance(source, TopicSource) and "avro" in (source.format, source.key_format):
            yield "avro", f"source '{source.name}'", source.place
    for sink in pipeline.sinks:
        if isinstance(sink.target, LakeTarget):
            yield sink.target.format, f"sink '{sink.name}'", sink.place
