"""Valid requests of every API and version, filled with chance: what the fuzzer starts from.

Encoded with kio, an implementation that is not ours, so that a codec mistake of ours cannot hide in the corpus.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import pkgutil
import random
import struct
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import kio.schema
from kio.serial import entity_writer

# The names avoid what would legitimately build state: the fuzzer measures memory, so most topic names do not exist
# and a space makes sure that no request creates them.
NAMES = ("fuzz", "fuzz", "no such topic", "", "a" * 300, "\u00e9\u4e2d")
CLIENT_ID = b"fuzzer"
UTC = datetime.UTC


def _small(rng: random.Random) -> int:
    return rng.choice((-1, 0, 0, 1, 1, 2, 5, 100))


MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "int8": lambda rng: rng.choice((-1, 0, 1, 2)),
    "int16": _small,
    "int32": _small,
    "int64": _small,
    "uint8": lambda rng: rng.choice((0, 1, 255)),
    "uint16": lambda rng: rng.choice((0, 1, 9092, 65535)),
    "uint32": lambda rng: rng.choice((0, 1, 2**32 - 1)),
    "float64": lambda rng: rng.random(),
    "bool": lambda rng: rng.random() < 0.5,
    "string": lambda rng: rng.choice(NAMES),
    "bytes": lambda rng: rng.randbytes(rng.randrange(40)),
    "records": lambda rng: rng.randbytes(rng.randrange(100)),
    "uuid": lambda rng: uuid.UUID(int=rng.getrandbits(128)) if rng.random() < 0.8 else None,
    "error_code": lambda rng: 0,
    "timedelta_i32": lambda rng: datetime.timedelta(milliseconds=rng.choice((0, 1, 10))),
    "timedelta_i64": lambda rng: datetime.timedelta(milliseconds=rng.choice((0, 1, 10))),
    "datetime_i64": lambda rng: datetime.datetime.fromtimestamp(rng.randrange(2**31), tz=UTC),
}


def request_classes() -> Iterator[type]:
    """Every version of every request that kio knows."""
    for package in pkgutil.iter_modules(kio.schema.__path__):
        if not package.ispkg:
            continue
        schema = importlib.import_module(f"kio.schema.{package.name}")
        for version in pkgutil.iter_modules(schema.__path__):
            try:
                module = importlib.import_module(f"kio.schema.{package.name}.{version.name}.request")
            except ModuleNotFoundError:
                continue  # headers and records are no requests
            name = package.name.replace("_", "") + "request"
            yield from (kind for key, kind in vars(module).items() if key.lower() == name)


def fill(kind: type, rng: random.Random) -> Any:
    """An instance with chance in every field."""
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        nullable = isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint)
        made = _value(hint, field.metadata.get("kafka_type"), rng)
        values[field.name] = None if nullable and rng.random() < 0.1 else made
    return kind(**values)


def _value(hint: Any, kafka_type: str | None, rng: random.Random) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        return tuple(_value(element, kafka_type, rng) for _ in range(rng.choice((0, 1, 1, 2, 4))))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fill(hint, rng)
    made = MAKERS[kafka_type or ""](rng)
    return hint(made) if isinstance(hint, type) and isinstance(made, float) else made


def frame(kind: Any, message: Any, correlation_id: int) -> bytes:
    """The request with its header, without the size in front."""
    body = io.BytesIO()
    entity_writer(kind)(body, message)
    header = struct.pack(">hhih", kind.__api_key__, kind.__version__, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return header + (b"\0" if kind.__flexible__ else b"") + body.getvalue()


def corpus(rng: random.Random, per_version: int) -> list[bytes]:
    """`per_version` requests of each API and version."""
    frames = []
    for kind in request_classes():
        for _ in range(per_version):
            frames.append(frame(kind, fill(kind, rng), rng.randrange(1000)))
    return frames
