"""kio as the other side: our messages as kio's entities, and its bytes."""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import typing
import uuid
from functools import cache
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from moldau.wire.primitives import NIL_UUID
from tests.contract.wire.shapes import Case, Field, random_message

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
STEMS = {"kraft_version_record": "k_raft_version_record"}
NAMES = {"request": "request", "response": "response", "data": "data"}


@dataclasses.dataclass(frozen=True)
class Slot:
    """One field of a kio entity: its wire type and, for structs, the entity inside."""

    name: str
    kafka_type: str
    nullable: bool
    entity: Any
    inner: Any  # tuple[Slot, ...] of the entity


def entity_of(case: Case) -> Any | None:
    """kio's class for a message in a version, None if kio does not have it."""
    stem = STEMS.get(case.stem, case.stem)
    where = f"kio.schema.{stem}.v{case.version}.{case.message.kind}"
    try:
        return getattr(import_module(where), case.name.replace("Kraft", "KRaft"))
    except ModuleNotFoundError:
        return None


@cache
def slots_of(entity: Any) -> tuple[Slot, ...]:
    hints = typing.get_type_hints(entity)
    return tuple(_slot(field, hints[field.name]) for field in dataclasses.fields(entity))


def _slot(field: Any, hint: Any) -> Slot:
    inside = [part for part in typing.get_args(hint) if part is not type(None)]
    nullable = type(None) in typing.get_args(hint)
    if nullable:
        hint = inside[0]
    if typing.get_origin(hint) is tuple:
        hint = typing.get_args(hint)[0]
    entity = hint if dataclasses.is_dataclass(hint) else None
    inner = slots_of(entity) if entity is not None else None
    return Slot(field.name, field.metadata.get("kafka_type", ""), nullable, entity, inner)


def representable(chance: random.Random, item: Field, slot: Slot) -> Any:
    """Values kio can hold: it turns error codes into an enumeration and times into datetime objects."""
    match slot.kafka_type:
        case "error_code":
            return int(chance.choice(list(ErrorCode)))
        case "timedelta_i64":
            return chance.choice((0, 1, 1000, chance.randrange(10**12)))
        case "datetime_i64":
            return chance.choice((0, 1000, chance.randrange(10**9) * 1000))
    return None


def message_for(case: Case, chance: random.Random) -> Any:
    return random_message(case, chance, slots_of(entity_of(case)), representable)


def to_kio(case: Case, value: Any, struct: str | None = None, entity: Any = None) -> Any:
    entity = entity if entity is not None else entity_of(case)
    values = {}
    for item, slot in zip(case.fields_of(struct), slots_of(entity), strict=True):
        ours = getattr(value, item.snake)
        if ours is None and item.tag is not None and item.is_struct and not item.nullable:
            ours = case.class_of(item.type)()  # absent means default, and kio has an instance there
        values[slot.name] = _field_to_kio(case, ours, item, slot)
    return entity(**values)


def _field_to_kio(case: Case, ours: Any, item: Field, slot: Slot) -> Any:
    if ours is None:
        return None
    if item.is_array:
        return tuple(_element_to_kio(case, one, item, slot) for one in ours)
    return _element_to_kio(case, ours, item, slot)


def _element_to_kio(case: Case, ours: Any, item: Field, slot: Slot) -> Any:
    if item.is_struct:
        return to_kio(case, ours, item.element_type, slot.entity)
    match slot.kafka_type:
        case "error_code":
            return ErrorCode(ours)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=ours)
        case "datetime_i64":
            return EPOCH + datetime.timedelta(milliseconds=ours)
        case "uuid":
            return None if ours == NIL_UUID and (slot.nullable or item.is_array) else uuid.UUID(bytes=ours)
    return ours


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def decode(case: Case, data: bytes) -> Any:
    return entity_reader(entity_of(case))(data, 0)[0]
