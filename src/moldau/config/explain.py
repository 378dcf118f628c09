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


def explanations(key: str) -> list[Explanation]:
    """Everything called `key`: some names exist on brokers and on topics. Empty when there is no such key."""
    return [
        _explained(option, scope)
        for scope, option in (
            ("broker", catalog.broker_option(key)),
            ("topic", catalog.TOPIC.get(key)),
            ("group", catalog.GROUP.get(key)),
            ("client metrics", catalog.CLIENT_METRICS.get(key)),
        )
        if option is not None
    ]


def explain(key: str) -> dict[str, str]:
    """Facts about a key, ready to print. KeyError with advice when there is none."""
    found = explanations(key)
    if not found:
        raise KeyError(f"there is no setting {key}" + advice(key))
    facts = {"key": key, "scope": ", ".join(entry.scope for entry in found), "meaning": found[0].doc}
    for label, values in (
        ("type", [entry.kind for entry in found]),
        ("default", [entry.default for entry in found]),
        ("allowed", [entry.allowed for entry in found]),
        ("importance", [entry.importance for entry in found]),
        ("changeable", [entry.update for entry in found]),
        ("in_moldau", [entry.effect for entry in found]),
        ("related", [entry.related for entry in found]),
    ):
        distinct = list(dict.fromkeys(value for value in values if value))
        if distinct:
            facts[label] = "; ".join(distinct)
    return facts


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


def advice(key: str) -> str:
    """What became of a key that does not exist, or what was probably meant; empty when nobody can tell."""
    for table in (REFUSED, IGNORED, TOPIC_RETIRED):
        if key in table:
            return f": {table[key]}"
    meant = nearest(key, all_keys())
    return "" if meant is None else f"; did you mean {meant}?"
