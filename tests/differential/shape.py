"""Plain data to request bytes, by the message tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from moldau.wire.apis import API_SPECS, ApiKey
from moldau.wire.headers import RequestHeader, encode_request_header
from moldau.wire.primitives import Writer
from tests.contract.wire.shapes import Case

CLIENT_ID = "differential"


@cache
def request_case(api: ApiKey, version: int) -> Case:
    spec = API_SPECS[api]
    return Case(spec.module, f"{spec.name}Request", version)


@cache
def response_case(api: ApiKey, version: int) -> Case:
    spec = API_SPECS[api]
    return Case(spec.module, f"{spec.name}Response", version)


@cache
def fields_of(case: Case, struct: str | None) -> tuple[Any, ...]:
    """The fields that this version of a message, or of a struct in it, has."""
    return tuple(case.fields_of(struct))


@cache
def _names_of(case: Case, struct: str | None) -> frozenset[str]:
    known = case.message.fields if struct is None else case.layouts.definitions[struct]
    return frozenset(item.snake for item in known)


def message_from(case: Case, struct: str | None, plain: Mapping[str, Any]) -> Any:
    """A message of the generated classes. A field that no version has is a typing mistake, and told; null where
    a version does not know it is the default."""
    strangers = plain.keys() - _names_of(case, struct)
    if strangers:
        raise KeyError(f"{case.name} has no field {sorted(strangers)}")
    values = {}
    for item in fields_of(case, struct):
        value = plain.get(item.snake)
        if item.snake in plain and (value is not None or case.is_nullable(item)):
            values[item.snake] = _value(case, item, value)
    return case.class_of(struct)(**values)


def _value(case: Case, item: Any, value: Any) -> Any:
    if value is None or not item.is_struct:
        return list(value) if item.is_array and value is not None else value
    if item.is_array:
        return [message_from(case, item.element_type, element) for element in value]
    return message_from(case, item.element_type, value)


def frame_of(api: ApiKey, version: int, plain: Mapping[str, Any], correlation_id: int) -> bytes:
    """Header and body, without the size in front. A version that the tables do not have is written as the last."""
    spec = API_SPECS[api]
    writer = Writer()
    header = RequestHeader(api_key=int(api), api_version=version, correlation_id=correlation_id, client_id=CLIENT_ID)
    encode_request_header(header, writer)
    case = request_case(api, max(spec.min_version, min(version, spec.max_version)))
    return writer.take_bytes() + case.encode(message_from(case, None, plain))
