"""Frames that ask for what is not served: unknown APIs and versions from the past and the future."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from moldau.wire.apis import API_SPECS, ApiKey
from tests.differential.steps import Scenario, Step


def _patched(position: int, form: str, value: int) -> Callable[[bytes], bytes]:
    def change(frame: bytes) -> bytes:
        data = bytearray(frame)
        struct.pack_into(form, data, position, value)
        return bytes(data)

    return change


def scenarios() -> Iterator[Scenario]:
    for key in sorted(API_SPECS):
        spec = API_SPECS[key]
        if "broker" in spec.listeners and key is not ApiKey.API_VERSIONS:
            versions = (-1, spec.min_version - 1, spec.max_version + 1, 32767)
            steps = [
                Step(key, spec.min_version, {}, f"as version {version}", change=_patched(2, ">h", version))
                for version in versions
            ]
            yield Scenario(f"versions of {spec.name}", key, tuple(steps))
    future = tuple(Step(ApiKey.API_VERSIONS, version, {}, "from the future") for version in (5, 6, 32767))
    yield Scenario("versions of ApiVersions", ApiKey.API_VERSIONS, future)
    strange = tuple(
        Step(ApiKey.API_VERSIONS, 0, {}, f"api key {key}", change=_patched(0, ">h", key))
        for key in (-1, 4, 5, 6, 7, 52, 58, 59, 500, 32767)
    )
    yield Scenario("unknown APIs", ApiKey.API_VERSIONS, strange)
