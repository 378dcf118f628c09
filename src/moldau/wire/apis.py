"""The APIs: which versions there are, who serves them, and their codecs, each imported when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from moldau.model.errors import ErrorCode
from moldau.model.failures import WireError
from moldau.wire.api_table import API_ROWS, ApiKey
from moldau.wire.headers import encode_response_header
from moldau.wire.message import Message
from moldau.wire.primitives import Reader, Writer

__all__ = [
    "API_SPECS", "ApiKey", "ApiSpec", "decode_request", "decode_response", "encode_request", "encode_response",
    "encode_unsupported_api_versions", "request_codec", "response_codec", "spec_for",
]  # fmt: skip

Decoder = Callable[[Reader, int], Message]
Encoder = Callable[[Message, Writer, int], None]

_ADVERTISED_FROM: Final[Mapping[ApiKey, int]] = {
    # Clients on old librdkafka compress only for brokers that claim Produce 0, so Kafka claims it and refuses
    # versions 0 to 2 when they come (KAFKA-18659).
    ApiKey.PRODUCE: 0,
}


class ApiSpec(NamedTuple):
    """One API: the versions Kafka 4.3 speaks, and those it tells clients about."""

    key: ApiKey
    name: str
    module: str
    min_version: int
    max_version: int
    flexible_from: int | None
    latest_version_unstable: bool
    listeners: frozenset[str]

    @property
    def advertised_min_version(self) -> int:
        return _ADVERTISED_FROM.get(self.key, self.min_version)

    @property
    def advertised_max_version(self) -> int:
        return self.max_version - 1 if self.latest_version_unstable else self.max_version

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions answers without tagged fields in the header, whatever its version (KIP-511)."""
        return 1 if self.is_flexible(version) and self.key is not ApiKey.API_VERSIONS else 0


def _spec(row: tuple[int, str, int, int, int, bool, str]) -> ApiSpec:
    key, module, low, high, flexible_from, unstable, listeners = row
    return ApiSpec(
        key=ApiKey(key),
        name="".join(word.capitalize() for word in module.split("_")),
        module=module,
        min_version=low,
        max_version=high,
        flexible_from=None if flexible_from < 0 else flexible_from,
        latest_version_unstable=unstable,
        listeners=frozenset(listeners.split(",")),
    )


API_SPECS: Final[Mapping[ApiKey, ApiSpec]] = MappingProxyType({ApiKey(row[0]): _spec(row) for row in API_ROWS})

_CODECS: Final[dict[tuple[int, str], tuple[Decoder, Encoder]]] = {}


def spec_for(key: int) -> ApiSpec | None:
    """The spec of an API key, or None for a key nobody knows."""
    try:
        return API_SPECS[ApiKey(key)]
    except ValueError:
        return None


def request_codec(key: int) -> tuple[Decoder, Encoder]:
    """The request decoder and encoder of an API; its module is imported on first use."""
    return _CODECS.get((key, "request")) or _load(key, "request")


def response_codec(key: int) -> tuple[Decoder, Encoder]:
    return _CODECS.get((key, "response")) or _load(key, "response")


def _load(key: int, direction: str) -> tuple[Decoder, Encoder]:
    name = API_SPECS[ApiKey(key)].module
    module: Any = import_module(f"moldau.wire.messages.{name}")
    codec = (
        cast("Decoder", getattr(module, f"decode_{name}_{direction}")),
        cast("Encoder", getattr(module, f"encode_{name}_{direction}")),
    )
    _CODECS[key, direction] = codec
    return codec


def _check_version(key: int, version: int) -> None:
    spec = spec_for(key)
    if spec is None:
        raise WireError(f"API key {key} is unknown")
    if not spec.supports(version):
        raise WireError(f"{spec.name} version {version} is not among {spec.min_version}-{spec.max_version}")


def decode_request(key: int, version: int, reader: Reader) -> Message:
    _check_version(key, version)
    return request_codec(key)[0](reader, version)


def encode_request(key: int, version: int, message: Message, writer: Writer) -> None:
    _check_version(key, version)
    request_codec(key)[1](message, writer, version)


def decode_response(key: int, version: int, reader: Reader) -> Message:
    _check_version(key, version)
    return response_codec(key)[0](reader, version)


def encode_response(key: int, version: int, message: Message, writer: Writer) -> None:
    _check_version(key, version)
    response_codec(key)[1](message, writer, version)


def encode_unsupported_api_versions(writer: Writer, correlation_id: int) -> None:
    """Answer ApiVersions in a version from the future: header and body of version 0, error 35, and the range that is
    spoken here, so that the client can ask again (KIP-511)."""
    from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, encode_api_versions_response

    spec = API_SPECS[ApiKey.API_VERSIONS]
    own = ApiVersion(api_key=spec.key, min_version=spec.min_version, max_version=spec.max_version)
    encode_response_header(writer, spec.key, 0, correlation_id)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
    encode_api_versions_response(response, writer, 0)
