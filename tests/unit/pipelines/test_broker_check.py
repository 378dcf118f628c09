"""Which topics of a file a cluster lacks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines.broker_check import check_topics
from moldau.pipelines.load import load_or_raise
from moldau.pipelines.places import Mistakes

FILE = """\
pipeline: p
bootstrap: b:1
sources:
  s: {SOURCE, format: string}
sinks:
  - {from: s, console: true}
"""


class Cluster:
    bootstrap = "b:1"
    topics = ("orders", "__pipelines")

    async def refresh(self, _topics: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("topic: orders", []),
        ("topic: __pipelines", []),  # what moldau tells about its pipelines can be read by one
        ("topic: order", ["4:14 the cluster has no topic 'order' (did you mean 'orders'?)"]),
        ("topic: _pipelines", ["4:14 the cluster has no topic '_pipelines' (moldau topic create _pipelines)"]),
        ("pattern: ord.*", []),
        ("pattern: .*pipelines", ["4:16 no topic matches '.*pipelines' yet (the cluster has 1 topics)"]),
        ("pattern: __pipe.*", []),
    ],
)
def test_topics_that_are_read_must_be_there(tmp_path: Path, source: str, told: list[str]) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(FILE.replace("SOURCE", source))
    mistakes = Mistakes()
    cluster: Any = Cluster()
    asyncio.run(check_topics(cluster, load_or_raise(file, {}), mistakes))
    assert [str(each).removeprefix(f"{file}:").replace(": ", " ", 1) for each in mistakes.found] == told
