"""One line of a DescribeConfigs answer, free of versions."""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.options import ConfigSource, Kind


class Synonym(NamedTuple):
    """A key that could have given the value, strongest first."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigRow(NamedTuple):
    """A key of a resource: value (None when sensitive or not set), and all that is known about it."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    kind: Kind | None
    doc: str
    synonyms: tuple[Synonym, ...] = ()
