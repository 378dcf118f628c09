"""Named clusters: addresses that people do not want to type, in one small TOML file.

    [prod]
    bootstrap = "kafka-1:9092,kafka-2:9092"
    timeout = "30s"

`--profile prod` or `MOLDAU_PROFILE=prod` picks one. `-b` beats them both.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from moldau.cli.errors import PlainError

VARIABLE: Final = "MOLDAU_PROFILE"
FILE_VARIABLE: Final = "MOLDAU_PROFILES"
KEYS: Final = ("bootstrap", "timeout")
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHOSEN: Final = "moldau.profile"


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    bootstrap: str
    timeout: str | None = None


def path() -> Path:
    """The file, whether it is there or not."""
    given = os.environ.get(FILE_VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME")
    return Path(home if home else Path.home() / ".config") / "moldau" / "profiles.toml"


def read() -> dict[str, Profile]:
    """All profiles by name, in the order of the file."""
    import tomllib

    try:
        document = tomllib.loads(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise _unreadable(str(problem)) from None
    return {name: _profile(name, values) for name, values in document.items()}


def choose(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """The callback of `--profile`: remember which one, for the options that take their defaults from it."""
    if name is None:
        return
    try:
        context.meta[_CHOSEN] = _named(name)
    except PlainError as problem:
        if context.get_parameter_source("profile") is not ParameterSource.ENVIRONMENT:
            raise
        context.meta[_CHOSEN] = problem  # a variable lies about: it matters only where no address is given


def _named(name: str) -> Profile:
    found = read()
    if name in found:
        return found[name]
    known = ", ".join(found) or "there are none yet"
    fixes = [f"moldau profile set {name} -b HOST:PORT"]
    raise PlainError("MD-2010", "unknown profile", facts=[("profile", name), ("known", known)], fixes=fixes)


def chosen() -> Profile | None:
    """The profile of the command that runs."""
    found = _remembered()
    return found if isinstance(found, Profile) else None


def needed() -> Profile | None:
    """The same, where nothing else says the address: a variable that names no profile is an error now."""
    found = _remembered()
    if isinstance(found, PlainError):
        raise found
    return found if isinstance(found, Profile) else None


def _remembered() -> object:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_CHOSEN)


def write(profile: Profile) -> None:
    """Add it, or put it in the place of the old one. Everything else in the file stays as it was."""
    lines = [f"[{profile.name}]", f"bootstrap = {json.dumps(profile.bootstrap)}"]
    if profile.timeout is not None:
        lines.append(f"timeout = {json.dumps(profile.timeout)}")
    rest = _without(profile.name).rstrip("\n")
    _save("\n".join([*([rest, ""] if rest else []), *lines]) + "\n")


def remove(name: str) -> None:
    _save(_without(name))


def _without(name: str) -> str:
    """The file's text without the lines of this profile."""
    file = path()
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = re.fullmatch(rf'\s*\[\s*"?{re.escape(name)}"?\s*\]\s*(#.*)?', line.rstrip("\n")) is not None
        if not inside:
            kept.append(line)
    return "".join(kept)


def _save(text: str) -> None:
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def _profile(name: str, values: Any) -> Profile:
    if not isinstance(values, dict) or not isinstance(values.get("bootstrap"), str):
        raise _unreadable(f'[{name}] needs bootstrap = "HOST:PORT"')
    strange = [key for key in values if key not in KEYS]
    if strange:
        raise _unreadable(f"[{name}] has no key '{strange[0]}'; there are {', '.join(KEYS)}")
    timeout = values.get("timeout")
    return Profile(name, values["bootstrap"], None if timeout is None else str(timeout))


def _unreadable(why: str) -> PlainError:
    return PlainError("MD-2006", "the profiles cannot be read", facts=[("file", str(path())), ("why", why)])
