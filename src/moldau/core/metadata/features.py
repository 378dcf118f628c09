"""The features this code can run and the levels a new cluster starts with.

A row here is a promise to clients: a finalised level is answered in ApiVersions, and clients switch protocols by it
(transactions v2 when `transaction.version` is 2, KIP-848 when `group.version` is 1). So a row is raised together with
the code that keeps the promise, never before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class FeatureRange(NamedTuple):
    min_level: int
    max_level: int
    initial_level: int
    """What a new cluster finalises; 0 leaves the feature off."""


METADATA_VERSION_4_3: Final = 30
"""Kafka's level number for 4.3-IV0."""

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {
    "metadata.version": FeatureRange(7, METADATA_VERSION_4_3, METADATA_VERSION_4_3),
    "transaction.version": FeatureRange(0, 2, 2),
    "group.version": FeatureRange(0, 1, 1),
    "share.version": FeatureRange(0, 0, 0),
    "streams.version": FeatureRange(0, 0, 0),
    "eligible.leader.replicas.version": FeatureRange(0, 0, 0),
}


def advertised(features: Mapping[str, FeatureRange]) -> dict[str, FeatureRange]:
    """The rows a client is told about: those with any level to offer."""
    return {name: row for name, row in features.items() if row.max_level > 0}
