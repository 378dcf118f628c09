"""What an operator asks about afterwards: changes of topics and settings, each told once."""

from __future__ import annotations

import logging

from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.model.options import ResourceType

log = logging.getLogger("moldau.metadata")


def tell_changes(delta: MetadataDelta, image: MetadataImage) -> None:
    """Deletions are told by the request that asks for them: there the client is known."""
    if not log.isEnabledFor(logging.INFO):
        return
    for topic_id, name in delta.topics_created.items():
        count = len(image.topics_by_id[topic_id].partitions)
        given = image.config(ResourceType.TOPIC, name)
        settings = "".join(f", {key}={value}" for key, value in sorted(given.items()))
        log.info("topic %s created with %d partition%s%s", name, count, "s" * (count != 1), settings)
    _tell_growth(delta, image)
    created = set(delta.topics_created.values())
    for kind, name in delta.configs_changed:
        if kind != ResourceType.TOPIC or name not in created:
            _tell_settings(kind, name, delta, image)


def _tell_growth(delta: MetadataDelta, image: MetadataImage) -> None:
    for topic_id in dict.fromkeys(topic_id for topic_id, _ in delta.partitions_changed):
        before, now = delta.before.topics_by_id.get(topic_id), image.topics_by_id.get(topic_id)
        if before is not None and now is not None and len(now.partitions) > len(before.partitions):
            log.info("topic %s grew from %d to %d partitions", now.name, len(before.partitions), len(now.partitions))


def _tell_settings(kind: int, name: str, delta: MetadataDelta, image: MetadataImage) -> None:
    """Values of topics only: what is set on a broker may be a password."""
    before, now = delta.before.config(kind, name), image.config(kind, name)
    is_topic = kind == ResourceType.TOPIC
    what = f"topic {name}" if is_topic else f"{ResourceType(kind).name.lower()} {name or '(default of all)'}"
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if is_topic:
            log.info("%s: %s changed from %s to %s", what, key, _or_default(old), _or_default(new))
        else:
            log.info("%s: %s %s", what, key, "changed" if new is not None else "taken back")


def _or_default(value: str | None) -> str:
    return "the default" if value is None else value
