"""Decisions about finalised features: raising and lowering what the whole cluster may use."""

from __future__ import annotations

from typing import Final

from moldau.core.metadata.commands import Decision, FeatureUpdate, UpdateFeatures, UpdateFeaturesReply
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import FeatureFinalised
from moldau.core.metadata.rules import MetadataRules
from moldau.model.errors import ErrorCode, Refused

METADATA_VERSION: Final = "metadata.version"


def decide_update_features(image: MetadataImage, command: UpdateFeatures, rules: MetadataRules) -> Decision:
    """All or nothing, as in Kafka: features depend on one another, so half an update is none."""
    outcomes = tuple(_refused(image, update, rules) or update for update in command.updates)
    good = not any(isinstance(outcome, Refused) for outcome in outcomes)
    records = tuple(FeatureFinalised(update.name, update.level) for update in command.updates)
    return Decision(records if good and not command.validate_only else (), UpdateFeaturesReply(outcomes))


def _refused(image: MetadataImage, update: FeatureUpdate, rules: MetadataRules) -> Refused | None:
    name, level = update.name, update.level
    row = rules.features.get(name)
    if row is None:
        return _invalid(f"Invalid update version {level} for feature {name}. The feature is not supported here.")
    if not (row.min_level <= level <= row.max_level or level == 0):
        return _invalid(
            f"Invalid update version {level} for feature {name}. Supported versions are {row.min_level}-{row.max_level}"
        )
    now = image.features.get(name, 0)
    if level < now and not update.allow_downgrade:
        return _invalid(
            f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature without "
            "setting the upgrade type to either safe or unsafe downgrade."
        )
    if level < now and name == METADATA_VERSION:
        return _invalid(
            f"Unsupported metadata.version downgrade from {now} to {level}. Refusing to perform the requested "
            "downgrade because it might delete metadata information."
        )
    return None


def _invalid(detail: str) -> Refused:
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, detail)
