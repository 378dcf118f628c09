"""ApiVersions (key 18): which APIs and versions this node answers, from the one table (`server/api_table.py`).

Every connection asks, so the answer is kept, encoded, until the metadata or the settings change.
"""

from __future__ import annotations

import re
from typing import Any, Final

from moldau.core.metadata.features import SUPPORTED_FEATURES, advertised
from moldau.model.errors import ErrorCode
from moldau.server.api_table import APIS
from moldau.server.context import RequestContext
from moldau.server.replies import Encoded
from moldau.wire.apis import API_SPECS, ApiKey
from moldau.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    encode_api_versions_response,
)
from moldau.wire.primitives import Writer

SOFTWARE_SINCE_VERSION: Final = 3
FEATURE_MINIMUM_ZERO_SINCE_VERSION: Final = 4
"""Older clients fail on a supported feature whose minimum is 0 (KAFKA-17492), so it is kept from them."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse | Encoded:
    if context.api_version >= SOFTWARE_SINCE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
        context.peer.software_name = name[:128]
        context.peer.software_version = version[:128]
    services = context.services
    if services.images is None:
        return _response(context)
    key = (ApiKey.API_VERSIONS, int(context.api_version), services.settings)
    body = services.cached_answer(key)
    if body is None:
        writer = Writer()
        encode_api_versions_response(_response(context), writer, context.api_version)
        body = writer.take_bytes()
        services.remember_answer(key, body)
    return Encoded(body)


def _response(context: RequestContext) -> ApiVersionsResponse:
    is_on = context.services.settings.bool
    response = ApiVersionsResponse(api_keys=[_row(api.key, *api.advertised(is_on)) for api in APIS])
    if context.api_version >= SOFTWARE_SINCE_VERSION:
        _add_features(response, context)
    return response


def unsupported(context: RequestContext) -> ApiVersionsResponse:
    """The answer, in version 0, to a version this node does not know: ask again in one of these (KIP-511)."""
    spec = API_SPECS[ApiKey.API_VERSIONS]
    own = _row(spec.key, spec.min_version, spec.max_version)
    return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[own])


def _row(key: ApiKey, low: int, high: int) -> ApiVersion:
    return ApiVersion(api_key=int(key), min_version=low, max_version=high)


def _add_features(response: ApiVersionsResponse, context: RequestContext) -> None:
    images = context.services.images
    image: Any = None if images is None else images.image
    if image is None:
        return
    response.finalized_features_epoch = image.offset
    for name, level in sorted(image.features.items()):
        response.finalized_features.append(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        )
    for name, row in sorted(advertised(SUPPORTED_FEATURES).items()):
        if row.min_level > 0 or context.api_version >= FEATURE_MINIMUM_ZERO_SINCE_VERSION:
            response.supported_features.append(
                SupportedFeatureKey(name=name, min_version=row.min_level, max_version=row.max_level)
            )
