"""Where settings come from, weakest first: defaults, file, environment, command line. Finds every mistake at once.

Files arrive as text (`ConfigFile`): reading them is the caller's business, so that this room touches no disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.config import catalog
from moldau.config.environment import derived_listeners, settings_in
from moldau.config.mistakes import Mistake, nearest
from moldau.config.parsing import BadValue, parse
from moldau.config.properties import BadSyntax, Entry, parse_properties
from moldau.config.tables.retired import IGNORED, REFUSED
from moldau.config.toml import parse_toml
from moldau.model.options import Effect, Value
from moldau.model.quantities import in_unit_of

COMMAND_LINE: Final = "--set"


class ConfigFile(NamedTuple):
    """The name of a configuration file, for messages, and what is in it."""

    name: str
    text: str

    @property
    def is_toml(self) -> bool:
        """By extension; otherwise a table header or a quoted value gives TOML away."""
        lowered = self.name.lower()
        if lowered.endswith((".toml", ".properties")):
            return lowered.endswith(".toml")
        lines = [line.strip() for line in self.text.splitlines()]
        return any(
            (line.startswith("[") and line.endswith("]")) or line.partition("=")[2].strip().startswith(('"', "'"))
            for line in lines
            if not line.startswith(("#", "!"))
        )


class Assigned(NamedTuple):
    """A value somebody set, as text and typed, and where."""

    text: str
    value: Value
    origin: str


class Notice(NamedTuple):
    """Something a person should know at start-up although it stops nothing."""

    warning: bool
    text: str


class Gathered:
    """What the sources say. Later assignments win."""

    def __init__(self) -> None:
        self.assigned: dict[str, Assigned] = {}
        self.mistakes: list[Mistake] = []
        self.notices: list[Notice] = []

    def assign(self, key: str, text: str, origin: str) -> None:
        """Take one setting, or note what is wrong with it."""
        option = catalog.broker_option(key)
        if option is None or key in catalog.DYNAMIC_ONLY:
            self._unknown(key, origin)
            return
        try:
            bare = in_unit_of(key, text)
            self.assigned[key] = Assigned(bare, parse(option, bare), origin)
        except (BadValue, ValueError) as problem:
            self.mistakes.append(Mistake(origin, str(problem), f"see: moldau config explain {option.name}"))

    def _unknown(self, key: str, origin: str) -> None:
        if key in IGNORED:
            self.notices.append(Notice(True, f"{origin}: {key} is ignored: {IGNORED[key]}"))
        elif catalog.is_plugin_key(key):
            self.notices.append(Notice(False, f"{origin}: {key} is for a Java plug-in and has no effect"))
        else:
            self.mistakes.append(Mistake(origin, *_unknown_key(key)))


def gather(
    file: ConfigFile | None,
    env: Mapping[str, str] | None,
    overrides: Mapping[str, str] | Iterable[str] | None,
) -> Gathered:
    """All settings from all sources."""
    gathered = Gathered()
    if file is not None:
        _take_file(gathered, file)
    if env is not None:
        _take_environment(gathered, env)
    if overrides is not None:
        _take_overrides(gathered, overrides)
    _derive_listeners(gathered)
    _note_keys_without_effect(gathered)
    return gathered


def _take_file(gathered: Gathered, file: ConfigFile) -> None:
    text = file.text.removeprefix("\ufeff")  # Windows editors begin a file with a byte order mark
    try:
        entries = parse_toml(text) if file.is_toml else parse_properties(text)
    except BadSyntax as problem:
        gathered.mistakes.append(Mistake(f"{file.name}:{problem.line}", str(problem)))
        return
    seen: dict[str, Entry] = {}
    for entry in entries:
        earlier = seen.get(entry.key)
        if earlier is not None:
            said = f"{file.name}:{entry.line}: {entry.key} was already set in line {earlier.line}; this one counts"
            gathered.notices.append(Notice(True, said))
        seen[entry.key] = entry
        gathered.assign(entry.key, entry.value, f"{file.name}:{entry.line}")


def _take_environment(gathered: Gathered, env: Mapping[str, str]) -> None:
    for variable, key, value in settings_in(env):
        origin = f"environment {variable}"
        # A misspelt setting must not pass, but any program may have its own KAFKA_SOMETHING.
        if catalog.broker_option(key) is None and key not in REFUSED and key not in IGNORED:
            meant = nearest(key, catalog.BROKER, cutoff=0.9)
            if meant is None:
                gathered.notices.append(Notice(True, f"{origin} is ignored: there is no setting {key}"))
                continue
        gathered.assign(key, value, origin)


def _take_overrides(gathered: Gathered, overrides: Mapping[str, str] | Iterable[str]) -> None:
    pairs: Iterable[tuple[str, str, str]]
    if isinstance(overrides, Mapping):
        pairs = ((key, "=", value) for key, value in overrides.items())
    else:
        pairs = (text.partition("=") for text in overrides)
    for key, separator, value in pairs:
        origin = f"{COMMAND_LINE} {key.strip()}"
        if not separator:
            gathered.mistakes.append(Mistake(origin, "there is no value", f"{COMMAND_LINE} {key.strip()}=VALUE"))
            continue
        gathered.assign(key.strip(), value, origin)


def _derive_listeners(gathered: Gathered) -> None:
    """Apache's image listens on every address at the advertised ports when told no listeners."""
    advertised = gathered.assigned.get("advertised.listeners")
    if advertised is None or not advertised.value or "listeners" in gathered.assigned:
        return
    gathered.assign("listeners", derived_listeners(advertised.text), f"{advertised.origin} (derived)")


def _note_keys_without_effect(gathered: Gathered) -> None:
    """One line for all keys that have nothing to steer here, one for features that are not there yet, and a warning
    where somebody counts on protection that is missing."""
    idle: list[str] = []
    later: list[str] = []
    missing: list[str] = []
    for key, assigned in gathered.assigned.items():
        option = catalog.broker_option(key)
        if option is None or assigned.value == option.default:
            continue
        if option.effect is Effect.NO_COUNTERPART:
            idle.append(key)
        elif option.effect is Effect.NOT_YET:
            guarded = key in catalog.PROTECTION or key.startswith(catalog.LISTENER_PREFIX)
            (missing if guarded else later).append(key)
    for keys, warning, text in (
        (idle, False, "accepted without effect, moldau has nothing for them to steer"),
        (later, False, "accepted without effect, what they belong to is not there yet"),
        (missing, True, "accepted WITHOUT EFFECT, the protection they ask for is not there yet"),
    ):
        if keys:
            gathered.notices.append(Notice(warning, f"{text}: {', '.join(sorted(keys))}"))


def _unknown_key(key: str) -> tuple[str, str]:
    """(what, fix) for a key that does not exist."""
    if key in REFUSED:
        return f"{key} does not exist any more", REFUSED[key]
    if key in catalog.DYNAMIC_ONLY:
        return f"{key} cannot be set at start", f"set it on the running broker: moldau config set broker ID {key}=VALUE"
    defaults = catalog.TOPIC_DEFAULTS.get(key)
    if defaults is not None:
        return f"{key} is a setting of topics", f"for the default of all topics use {defaults[0][0]}"
    if key in catalog.TOPIC:
        return f"{key} is a setting of topics", f"moldau config set topic NAME {key}=VALUE"
    meant = nearest(key, catalog.BROKER)
    if meant is not None:
        return f"unknown setting {key}", f"did you mean {meant}?"
    return f"unknown setting {key}", "remove it, or look for its name: moldau config explain"
