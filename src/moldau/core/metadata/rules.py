"""What decisions need to know that is not metadata: defaults, limits, and who judges configuration values.

The controller's shell fills these in from settings; the cores only see the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from moldau.core.metadata.commands import NewTopic
from moldau.core.metadata.features import SUPPORTED_FEATURES, FeatureRange

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Kafka's bound on partitions made by one request; more is refused with POLICY_VIOLATION."""


class Chance(Protocol):
    """A stream of randomness (`ports.Chance`, of which decisions use this much)."""

    def randbytes(self, n: int, /) -> bytes: ...


class ConfigJudge(Protocol):
    """Knows which configuration keys exist and what they accept. Pure."""

    def problem(self, resource_type: int, resource_name: str, values: Mapping[str, str]) -> str | None:
        """What is wrong with this complete set of overrides, in words for the person who sent it; None if nothing."""

    def is_list(self, resource_type: int, key: str) -> bool:
        """Whether APPEND and SUBTRACT make sense."""

    def default(self, resource_type: int, key: str) -> str | None:
        """The value in force while there is no override; APPEND starts from it."""


class LenientJudge:
    """Accepts every value: for tools and tests that are not about configuration."""

    def problem(self, resource_type: int, resource_name: str, values: Mapping[str, str]) -> str | None:
        return None

    def is_list(self, resource_type: int, key: str) -> bool:
        return True

    def default(self, resource_type: int, key: str) -> str | None:
        return None


class MetadataRules(NamedTuple):
    judge: ConfigJudge
    default_partitions: int = 1
    default_replication_factor: int = 1
    partitions_max: int = 2**31 - 1
    """What the cluster can hold in all; more is refused with INVALID_PARTITIONS. Its own topics are always made."""
    policy: Callable[[NewTopic], str | None] | None = None
    """A site's own rule for new topics; what it returns becomes POLICY_VIOLATION."""
    features: Mapping[str, FeatureRange] = SUPPORTED_FEATURES
