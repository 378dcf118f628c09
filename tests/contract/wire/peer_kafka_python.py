"""kafka-python as the other side: our messages as its containers, and its bytes."""

from __future__ import annotations

import pkgutil
import uuid
from functools import cache
from importlib import import_module
from typing import Any

import kafka.protocol
from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage

from moldau.wire.primitives import NIL_UUID
from tests.contract.wire.shapes import Case, Field


@cache
def classes() -> dict[str, Any]:
    """kafka-python's message classes by name."""
    for found in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in found.name and not found.name.endswith("generate_stubs"):
            import_module(found.name)
    return {found.__name__: found for base in (ApiMessage, ApiData) for found in base.__subclasses__()}


def class_of(case: Case) -> Any | None:
    """kafka-python's class, None if it does not have the message or not in this version."""
    found = classes().get(case.name)
    return found if found is not None and case.version <= found.max_version else None


def fields_of(case: Case, struct: Any) -> list[Any]:
    return [item for item in struct.fields.values() if item.for_version_q(case.version)]


def is_bit_set(theirs: Any) -> bool:
    """kafka-python reads authorised operations as a set of bit numbers."""
    return bool(theirs.type_str == "bitfield")


def to_peer(case: Case, value: Any) -> Any:
    found = class_of(case)
    assert found is not None
    return found(version=case.version, **_values(case, value, None, found._struct))


def _values(case: Case, value: Any, struct: str | None, their_struct: Any) -> dict[str, Any]:
    values = {}
    default = type(value)()
    for item, theirs in zip(case.fields_of(struct), fields_of(case, their_struct), strict=True):
        ours = getattr(value, item.snake)
        if item.tag is not None and ours == getattr(default, item.snake):
            continue  # what is given explicitly is written, default or not
        values[theirs.name] = _field_to_peer(case, ours, item, theirs)
    return values


def _field_to_peer(case: Case, ours: Any, item: Field, theirs: Any) -> Any:
    if ours is None:
        return None
    if item.is_array:
        return [_element_to_peer(case, one, item, theirs) for one in ours]
    return _element_to_peer(case, ours, item, theirs)


def _element_to_peer(case: Case, ours: Any, item: Field, theirs: Any) -> Any:
    if item.is_struct:
        return theirs.data_class(version=case.version, **_values(case, ours, item.element_type, theirs))
    if item.element_type == "uuid":
        return uuid.UUID(bytes=ours)
    if is_bit_set(theirs):
        return {bit for bit in range(32) if ours >> bit & 1}
    return ours


def encode(peer: Any, case: Case) -> bytes:
    return bytes(peer.encode(version=case.version, header=False))


def decode(case: Case, data: bytes) -> Any:
    """Their reading of the bytes as a message of ours."""
    found = class_of(case)
    assert found is not None
    return _from_peer(case, found.decode(data, version=case.version, header=False), None, found._struct)


def _from_peer(case: Case, peer: Any, struct: str | None, their_struct: Any) -> Any:
    values = {}
    for item, theirs in zip(case.fields_of(struct), fields_of(case, their_struct), strict=True):
        values[item.snake] = _field_from_peer(case, getattr(peer, theirs.name), item, theirs)
    return case.class_of(struct)(**values)


def _field_from_peer(case: Case, value: Any, item: Field, theirs: Any) -> Any:
    if item.is_array:
        return None if value is None else [_element_from_peer(case, one, item, theirs) for one in value]
    return _element_from_peer(case, value, item, theirs)


def _element_from_peer(case: Case, value: Any, item: Field, theirs: Any) -> Any:
    if item.element_type == "uuid":
        return NIL_UUID if value is None else value.bytes
    if is_bit_set(theirs):
        number = sum(1 << bit for bit in ({31} if value is None else value))
        return number - 2**32 if number >= 2**31 else number
    if value is None:
        return None
    if item.is_struct:
        return _from_peer(case, value, item.element_type, theirs)
    return bytes(value) if item.element_type in ("bytes", "records") else value
