"""How one setting is declared: Kafka's name, type, default, bounds, and what it does here.

Declarations are rows of tables (`config/tables/`). Parsing, validation, DescribeConfigs, `moldau config explain` and
the reference page all read them. Rows are plain tuples and kinds are plain enums: some 430 of them are built at
every start, so nothing here may cost more than a fraction of a microsecond.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
"""A parsed setting. Lists are tuples; None means "not set"."""


class Kind(enum.IntEnum):
    """Kafka's types, with the numbers that DescribeConfigs uses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(enum.IntEnum):
    HIGH = 0
    MEDIUM = 1
    LOW = 2


class Update(enum.Enum):
    """Whether a broker key may change while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Effect(enum.Enum):
    """What setting a key does in moldau."""

    ACTS = "acts"
    NOT_YET = "accepted, the feature it belongs to is not there yet"
    NO_COUNTERPART = "accepted, moldau has nothing that it could steer"


class ConfigSource(enum.IntEnum):
    """Where a value comes from, with the numbers that DescribeConfigs uses."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ResourceType(enum.IntEnum):
    """What a configuration belongs to, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


RETENTION_HOLD: Final = "moldau.retention.hold"
"""Topic key that keeps retention and compaction away: of a topic that was taken in from disk, nobody knows yet how
long its records are to be kept."""
ENDS_HOLD: Final = frozenset({"retention.ms", "retention.bytes", "cleanup.policy"})
"""Whoever says how long records are kept has made up his mind: setting one of these ends the hold."""

BOOLEAN: Final = Kind.BOOLEAN
STRING: Final = Kind.STRING
INT: Final = Kind.INT
SHORT: Final = Kind.SHORT
LONG: Final = Kind.LONG
DOUBLE: Final = Kind.DOUBLE
LIST: Final = Kind.LIST
CLASS: Final = Kind.CLASS
PASSWORD: Final = Kind.PASSWORD
HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
READ_ONLY: Final = Update.READ_ONLY
PER_BROKER: Final = Update.PER_BROKER
CLUSTER_WIDE: Final = Update.CLUSTER_WIDE
ACTS: Final = Effect.ACTS
NOT_YET: Final = Effect.NOT_YET
NO_COUNTERPART: Final = Effect.NO_COUNTERPART

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308


class Option(NamedTuple):
    """One setting.

    `low` and `high` are inclusive; `also` names values that are allowed beside the range. `choices` are the words a
    string, or every element of a list, may be. `internal` keys are accepted but not listed unless they are set.
    """

    name: str
    kind: Kind
    default: Value
    importance: Importance
    update: Update
    effect: Effect
    doc: str
    low: float | None = None
    high: float | None = None
    also: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    ignore_case: bool = False
    non_empty: bool = False
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind is Kind.PASSWORD


class TopicDefault(NamedTuple):
    """Which broker keys a topic key takes its default from, first one wins, and what one unit of each is worth."""

    topic_key: str
    broker_keys: tuple[tuple[str, int], ...]
