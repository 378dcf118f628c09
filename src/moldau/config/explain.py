"""What there is to say about one key, for `moldau config explain` and the reference page."""

from __future__ import annotations

from typing import NamedTuple

from moldau.config import catalog
from moldau.config.mistakes import nearest
from moldau.config.parsing import render
from moldau.config.tables.retired import IGNORED, REFUSED, TOPIC_RETIRED
from moldau.model.options import Kind, Option


class Explanation(NamedTuple):
    """A key in words. `scope` is broker, topic, group or client metrics."""

    name: str
    scope: str
    kind: str
    default: str
    allowed: str
    importance: str
    update: str
    effect: str
    doc: str
    related: str
    """For a topic key the broker keys it takes its default from, and the other way round."""


class Unknown(NamedTuple):
    """No such key. `advice` says what became of it or what was probably meant."""

    name: str
    advice: str


def explain(key: str) -> list[Explanation] | Unknown:
    """Everything called `key`: some names exist on brokers and on topics."""
    found = [
        _explained(option, scope)
        for scope, option in (
            ("broker", catalog.broker_option(key)),
            ("topic", catalog.TOPIC.get(key)),
            ("group", catalog.GROUP.get(key)),
            ("client metrics", catalog.CLIENT_METRICS.get(key)),
        )
        if option is not None
    ]
    return found or Unknown(key, _advice(key))


def all_keys() -> list[str]:
    """Every public name, for completion."""
    tables = (catalog.BROKER, catalog.TOPIC, catalog.GROUP, catalog.CLIENT_METRICS)
    return sorted({option.name for table in tables for option in table.values() if not option.internal})


def allowed_values(option: Option) -> str:
    """Bounds or choices in short, empty when everything of its type goes."""
    if option.choices:
        return ", ".join(option.choices)
    low, high = option.low, option.high
    if low is None and high is None:
        return "not empty" if option.non_empty else ""
    if low is not None and high is not None:
        text = f"{low} to {high}"
    else:
        text = f"at least {low}" if high is None else f"at most {high}"
    return text + "".join(f" or {value}" for value in option.also)


def default_text(option: Option) -> str:
    """The default as a person would write it."""
    text = render(option.kind, option.default)
    if text is None:
        return "not set"
    return "empty" if text == "" else text


def _explained(option: Option, scope: str) -> Explanation:
    return Explanation(
        option.name,
        scope,
        _kind_text(option.kind),
        default_text(option),
        allowed_values(option),
        option.importance.name.lower(),
        option.update.value if scope == "broker" else "while running",
        option.effect.value,
        option.doc,
        _related(option.name, scope),
    )


def _kind_text(kind: Kind) -> str:
    return kind.name.lower()


def _related(key: str, scope: str) -> str:
    if scope == "topic":
        names = [name for name, _ in catalog.TOPIC_DEFAULTS.get(key, ())]
        return f"default from {', then '.join(names)}" if names else ""
    if scope == "group":
        return f"default from {catalog.GROUP_DEFAULTS[key]}" if key in catalog.GROUP_DEFAULTS else ""
    for topic_key, keys in catalog.TOPIC_DEFAULTS.items():
        if any(name == key for name, _ in keys):
            return f"default of the topic key {topic_key}"
    return ""


def _advice(key: str) -> str:
    for table in (REFUSED, IGNORED, TOPIC_RETIRED):
        if key in table:
            return table[key]
    meant = nearest(key, all_keys())
    return "" if meant is None else f"did you mean {meant}?"
