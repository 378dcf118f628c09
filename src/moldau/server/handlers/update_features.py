"""UpdateFeatures: raise or lower what the whole cluster may use. All or nothing.

Non-obvious: up to version 1 each feature has a row of its own, later there is one answer for all. Version 0 tells a
downgrade by a flag, later versions by the type of the upgrade.
"""

from __future__ import annotations

from typing import Final

from moldau.core.metadata.commands import FeatureUpdate, UpdateFeatures
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
TYPES_FROM: Final = 1
ROWS_UP_TO: Final = 1
NO_ERROR_TEXT: Final = "NONE"


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    problem = next((problem for row in request.feature_updates if (problem := _problem(row, context))), None)
    if problem is not None:
        return _refused(Refused(ErrorCode.INVALID_UPDATE_VERSION, problem))
    updates = tuple(_update(row, context) for row in request.feature_updates)
    reply = await context.services.controller.submit(UpdateFeatures(updates, request.validate_only))
    if isinstance(reply, Refused):
        return UpdateFeaturesResponse(error_code=reply.code, error_message=reply.detail)
    refused = next((outcome for outcome in reply.outcomes if isinstance(outcome, Refused)), None)
    if refused is not None:
        return _refused(refused)
    rows = updates if context.api_version <= ROWS_UP_TO else ()
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=row.name, error_message=NO_ERROR_TEXT) for row in rows],
    )


def _update(row: FeatureUpdateKey, context: RequestContext) -> FeatureUpdate:
    lowers = row.allow_downgrade if context.api_version < TYPES_FROM else row.upgrade_type != UPGRADE
    return FeatureUpdate(row.feature, row.max_version_level, lowers)


def _problem(row: FeatureUpdateKey, context: RequestContext) -> str | None:
    """What is wrong with the form of an update, whatever the feature."""
    what = f"Invalid update version {row.max_version_level} for feature {row.feature}."
    if row.max_version_level < 0:
        return f"{what} A feature version cannot be less than 0."
    known = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    if context.api_version >= TYPES_FROM and row.upgrade_type not in known:
        return f"{what} The controller does not support the given upgrade type."
    return None


def _refused(refused: Refused) -> UpdateFeaturesResponse:
    detail = f"The update failed for all features since the following feature had an error: {refused.detail}"
    return UpdateFeaturesResponse(error_code=refused.code, error_message=detail)
