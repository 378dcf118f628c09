"""The broker's settings: layers of sources, resolved and typed.

`Settings` never changes. A dynamic change makes a new one (`with_dynamic`); `config.live` tells who wants to know.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.config import catalog, topic_settings
from moldau.config.checks import broker_mistakes
from moldau.config.listeners import ListenerAddress, parse_listener, parse_protocol_map
from moldau.config.mistakes import SettingsError
from moldau.config.parsing import BadValue, parse, split_list
from moldau.config.rows import ConfigRow
from moldau.config.sources import Assigned, ConfigFile, Notice, gather
from moldau.core.log.settings import LogSettings
from moldau.model.checks import check
from moldau.model.options import Option, Value

_NOTHING: Final[Mapping[str, Assigned]] = {}


class Settings:
    """Resolved settings. The strongest layer wins: this broker's dynamic, the cluster's dynamic, static, default."""

    def __init__(
        self,
        static: Mapping[str, Assigned] = _NOTHING,
        notices: Iterable[Notice] = (),
        *,
        dynamic_cluster: Mapping[str, Assigned] = _NOTHING,
        dynamic_broker: Mapping[str, Assigned] = _NOTHING,
    ) -> None:
        self.static = static
        self.dynamic_cluster = dynamic_cluster
        self.dynamic_broker = dynamic_broker
        self.notices = tuple(notices)
        """What to tell at start-up: keys without effect, ignored variables, repeated keys."""
        self._set: dict[str, Value] = {}
        for layer in (static, dynamic_cluster, dynamic_broker):
            self._set.update((key, assigned.value) for key, assigned in layer.items())
        if "broker.id" in self._set and "node.id" not in self._set:
            self._set["node.id"] = self._set["broker.id"]
        self._topic_base: dict[str, Value] | None = None

    @classmethod
    def from_sources(
        cls,
        *,
        file: ConfigFile | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | Iterable[str] | None = None,
        dynamic: Mapping[str, str] | None = None,
    ) -> Settings:
        """Defaults < file < environment < command line. Raises `SettingsError` with every mistake found.

        `overrides` is a mapping or `key=value` texts; `dynamic` is what the metadata log holds for this broker.
        """
        gathered = gather(file, env, overrides)
        settings = cls(gathered.assigned, gathered.notices)
        mistakes = [*gathered.mistakes, *broker_mistakes(settings)]
        if mistakes:
            raise SettingsError(mistakes)
        return settings if dynamic is None else settings.with_dynamic(dynamic)

    def with_dynamic(self, broker: Mapping[str, str], cluster: Mapping[str, str] | None = None) -> Settings:
        """These settings under other dynamic layers. A stored value that no longer parses is left out, with a
        notice: it was checked when it was set, so only an older or newer moldau can have written it."""
        notices: builtins.list[Notice] = []
        layers = [_dynamic_layer(layer, origin, notices) for layer, origin in _dynamic_origins(broker, cluster)]
        return Settings(self.static, notices, dynamic_cluster=layers[0], dynamic_broker=layers[1])

    # -- typed access ------------------------------------------------------------------------------------------------

    def __getitem__(self, key: builtins.str) -> Value:
        if key in self._set:
            return self._set[key]
        option = catalog.broker_option(key)
        check(option is not None, "unknown setting asked for", key)
        assert option is not None
        return option.default

    def int(self, key: builtins.str) -> builtins.int:
        value = self[key]
        check(isinstance(value, builtins.int) and not isinstance(value, builtins.bool), "not an integer setting", key)
        assert isinstance(value, builtins.int)
        return value

    def float(self, key: builtins.str) -> builtins.float:
        value = self[key]
        check(isinstance(value, builtins.float), "not a number setting", key)
        assert isinstance(value, builtins.float)
        return value

    def bool(self, key: builtins.str) -> builtins.bool:
        value = self[key]
        check(isinstance(value, builtins.bool), "not a yes-or-no setting", key)
        assert isinstance(value, builtins.bool)
        return value

    def str(self, key: builtins.str) -> builtins.str:
        value = self[key]
        check(isinstance(value, builtins.str), "not a text setting, or not set", key)
        assert isinstance(value, builtins.str)
        return value

    def optional_str(self, key: builtins.str) -> builtins.str | None:
        """Like `str`, but None when it is not set."""
        return None if self[key] is None else self.str(key)

    def list(self, key: builtins.str) -> tuple[builtins.str, ...]:
        """The elements; not set is the empty list. Comma-separated text that Kafka types as a string works too."""
        value = self[key]
        if value is None:
            return ()
        if isinstance(value, builtins.str):
            return split_list(value)
        check(isinstance(value, tuple), "not a list setting", key)
        assert isinstance(value, tuple)
        return value

    def is_set(self, key: builtins.str) -> builtins.bool:
        """Whether anybody set it, in any layer."""
        return key in self._set

    def origin(self, key: builtins.str) -> builtins.str:
        """Where the value comes from, for people: `server.properties:12`, `environment KAFKA_LOG_DIRS`, `default`."""
        for layer in (self.dynamic_broker, self.dynamic_cluster, self.static):
            if key in layer:
                return layer[key].origin
        return "default"

    # -- questions that take more than one key -----------------------------------------------------------------------

    @property
    def node_id(self) -> builtins.int:
        return self.int("node.id")

    @property
    def log_dirs(self) -> tuple[builtins.str, ...]:
        """`log.dirs`, or `log.dir` when that is not set."""
        return self.list("log.dirs") or self.list("log.dir")

    def retention_ms(self) -> builtins.int:
        """The default retention time; -1 is for ever."""
        value = topic_settings.broker_default(self, "retention.ms")
        check(isinstance(value, builtins.int), "retention without a value", value)
        assert isinstance(value, builtins.int)
        return value

    def listeners(self) -> tuple[ListenerAddress, ...]:
        """Where to listen for clients. Listeners of KRaft controllers are left out: moldau has no use for them."""
        controllers = {name.upper() for name in self.list("controller.listener.names")}
        parsed = [parse_listener(text) for text in self.list("listeners")]
        return tuple(listener for listener in parsed if listener.name not in controllers)

    def advertised_listeners(self) -> tuple[ListenerAddress, ...]:
        """What clients are told; empty means the address each one dialled."""
        controllers = {name.upper() for name in self.list("controller.listener.names")}
        parsed = [parse_listener(text) for text in self.list("advertised.listeners")]
        return tuple(listener for listener in parsed if listener.name not in controllers)

    def security_protocol(self, listener: builtins.str) -> builtins.str | None:
        """What a listener speaks, e.g. PLAINTEXT; None when nothing says so."""
        return parse_protocol_map(self.str("listener.security.protocol.map")).get(listener.upper())

    # -- topics ------------------------------------------------------------------------------------------------------

    def topic_values(self, overrides: Mapping[builtins.str, builtins.str] = {}) -> dict[builtins.str, Value]:
        """Every topic key with its value under these overrides."""
        if self._topic_base is None:
            self._topic_base = topic_settings.defaults(self)
        return topic_settings.merged(self._topic_base, overrides)

    def log_settings(self, topic_overrides: Mapping[builtins.str, builtins.str] = {}) -> LogSettings:
        """What the log of a partition needs. Overrides were validated when they were set; a key or value that
        this version does not know is passed over."""
        return topic_settings.log_settings(self.topic_values(topic_overrides))

    # -- rows for DescribeConfigs ------------------------------------------------------------------------------------

    def describe_broker(self) -> builtins.list[ConfigRow]:
        """This broker: every key with value, source and synonyms."""
        from moldau.config import describe

        return describe.broker_rows(self)

    def describe_cluster_default(self) -> builtins.list[ConfigRow]:
        """The dynamic defaults of all brokers: only what was set."""
        from moldau.config import describe

        return describe.cluster_default_rows(self)

    def describe_topic(self, overrides: Mapping[builtins.str, builtins.str]) -> builtins.list[ConfigRow]:
        from moldau.config import describe

        return describe.topic_rows(self, overrides)

    def describe_new_topic(self, overrides: Mapping[builtins.str, builtins.str]) -> builtins.list[ConfigRow]:
        """As CreateTopics tells it: with the source of the value in force."""
        from moldau.config import describe

        return describe.new_topic_rows(self, overrides)

    def describe_group(self, overrides: Mapping[builtins.str, builtins.str]) -> builtins.list[ConfigRow]:
        from moldau.config import describe

        return describe.group_rows(self, overrides)

    def describe_client_metrics(self, overrides: Mapping[builtins.str, builtins.str]) -> builtins.list[ConfigRow]:
        from moldau.config import describe

        return describe.client_metrics_rows(overrides)


def _dynamic_origins(
    broker: Mapping[str, str], cluster: Mapping[str, str] | None
) -> tuple[tuple[Mapping[str, str], str], ...]:
    return ((cluster or {}, "dynamic default of the cluster"), (broker, "dynamic setting of this broker"))


def _dynamic_layer(configs: Mapping[str, str], origin: str, notices: list[Notice]) -> dict[str, Assigned]:
    layer: dict[str, Assigned] = {}
    for key, text in configs.items():
        option: Option | None = catalog.broker_option(key)
        if option is None:
            notices.append(Notice(True, f"{origin}: {key} is not known and is passed over"))
            continue
        try:
            layer[key] = Assigned(text, parse(option, text), origin)
        except BadValue as problem:
            notices.append(Notice(True, f"{origin} is passed over: {problem}"))
    return layer
