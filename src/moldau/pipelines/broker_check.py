"""Does the cluster have what a pipeline reads and writes?"""

from __future__ import annotations

from moldau.client.admin import describe_configs
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.pipelines.places import Mistakes, Place, nearest
from moldau.pipelines.spec import Pipeline, TopicSource, TopicTarget
from moldau.spark.source.subscription import finds

BROKER = 4


def clusters(pipeline: Pipeline) -> list[str]:
    """The addresses of the clusters whose topics the pipeline uses."""
    found = [source.bootstrap for source in pipeline.sources.values() if isinstance(source, TopicSource)]
    found += [sink.target.bootstrap for sink in pipeline.sinks if isinstance(sink.target, TopicTarget)]
    return list(dict.fromkeys(found))


async def check_topics(cluster: Cluster, pipeline: Pipeline, mistakes: Mistakes) -> None:
    """Topics that are read must be there; those that are written too, unless the cluster makes them by itself."""
    await cluster.refresh(None)
    known = list(cluster.topics)
    for source in pipeline.sources.values():
        if isinstance(source, TopicSource) and source.bootstrap == cluster.bootstrap:
            _check_source(source, known, mistakes)
    missing = [(topic, place) for topic, place in _written(pipeline, cluster.bootstrap) if topic not in known]
    if missing and not await _creates_topics(cluster):
        for topic, place in missing:
            _missing(topic, place, known, mistakes)


def _check_source(source: TopicSource, known: list[str], mistakes: Mistakes) -> None:
    for topic in source.topics:
        if topic not in known:
            _missing(topic, source.topic_place, known, mistakes)
    if source.pattern is not None and not any(finds(source.pattern, topic) for topic in known):
        mistakes.add(
            source.topic_place,
            f"no topic matches '{source.pattern}' yet",
            f"the cluster has {len(_usual(known))} topics",
        )


def _usual(topics: list[str]) -> list[str]:
    return [name for name in topics if not name.startswith("__")]


def _missing(topic: str, place: Place, known: list[str], mistakes: Mistakes) -> None:
    hint = nearest(topic, _usual(known)) or f"moldau topic create {topic}"
    mistakes.add(place, f"the cluster has no topic '{topic}'", hint)


def _written(pipeline: Pipeline, bootstrap: str) -> list[tuple[str, Place]]:
    found = [
        (sink.target.topic.value, sink.target.topic.place)
        for sink in pipeline.sinks
        if isinstance(sink.target, TopicTarget) and sink.target.bootstrap == bootstrap
    ]
    for source in pipeline.dead_letters:
        if source.bootstrap == bootstrap and source.dead_letter is not None:
            found.append((source.dead_letter.value, source.dead_letter.place))
    return found


async def _creates_topics(cluster: Cluster) -> bool:
    broker = next(iter(cluster.brokers), 0)
    try:
        rows = await describe_configs(cluster, BROKER, str(broker), ["auto.create.topics.enable"])
    except BrokerRefused:
        return True  # not allowed to ask; the sink will know
    return all(row.value != "false" for row in rows if row.name == "auto.create.topics.enable")
