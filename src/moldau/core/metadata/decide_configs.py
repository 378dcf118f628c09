"""Decisions about configuration overrides: the whole set at once (AlterConfigs) or edits (IncrementalAlterConfigs).

What values a key accepts is not known here; a `ConfigJudge` passed in says so. A resource is changed as a whole or not
at all: one bad key refuses all edits of its resource, and the other resources of the request go through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from moldau.core.metadata.commands import (
    AlterConfigs,
    AlterConfigsReply,
    AlteredResource,
    ConfigEdit,
    ConfigEdits,
    ConfigOperation,
    ConfigReplacement,
    Decision,
    IncrementalAlterConfigs,
)
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import ConfigChanged, Record
from moldau.core.metadata.rules import ConfigJudge, MetadataRules
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import topic_name_problem
from moldau.model.options import ENDS_HOLD, RETENTION_HOLD, ResourceType


def decide_incremental_alter_configs(
    image: MetadataImage, command: IncrementalAlterConfigs, rules: MetadataRules
) -> Decision:
    targets = [_edited(image, edits, rules.judge) for edits in command.resources]
    return _decide(image, command.resources, targets, rules.judge, validate_only=command.validate_only)


def decide_alter_configs(image: MetadataImage, command: AlterConfigs, rules: MetadataRules) -> Decision:
    targets = [_replaced(replacement) for replacement in command.resources]
    return _decide(image, command.resources, targets, rules.judge, validate_only=command.validate_only)


def _decide(
    image: MetadataImage,
    resources: Iterable[ConfigEdits | ConfigReplacement],
    targets: list[dict[str, str] | Refused],
    judge: ConfigJudge,
    *,
    validate_only: bool,
) -> Decision:
    asked = list(resources)
    names = [(resource.resource_type, resource.resource_name) for resource in asked]
    times = Counter(names)
    records: list[Record] = []
    outcomes: list[AlteredResource | Refused] = []
    for name, target in zip(names, targets, strict=True):
        refused = _resource_refused(image, *name, repeated=times[name] > 1)
        if refused is None and isinstance(target, Refused):
            refused = target
        if refused is None and isinstance(target, dict):
            problem = judge.problem(*name, target)
            refused = None if problem is None else Refused(ErrorCode.INVALID_CONFIG, problem)
        if refused is not None:
            outcomes.append(refused)
            continue
        assert isinstance(target, dict)
        records.extend(_difference(name, image.config(*name), target))
        outcomes.append(AlteredResource(*name))
    return Decision(() if validate_only else tuple(records), AlterConfigsReply(tuple(outcomes)))


def _difference(name: tuple[int, str], before: Mapping[str, str], after: Mapping[str, str]) -> list[ConfigChanged]:
    changed = [ConfigChanged(*name, key, value) for key, value in after.items() if before.get(key) != value]
    return changed + [ConfigChanged(*name, key, None) for key in before if key not in after]


def _resource_refused(image: MetadataImage, resource_type: int, name: str, *, repeated: bool) -> Refused | None:
    if repeated:
        return Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    match resource_type:
        case ResourceType.TOPIC:
            problem = topic_name_problem(name)
            if problem is not None:
                return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
            if name not in image.topics_by_name:
                return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        case ResourceType.BROKER:
            return _broker_refused(image, name)
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            if not name:
                return Refused(ErrorCode.INVALID_REQUEST, "Default config resources of this type are not allowed.")
        case _:
            return Refused(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource_type}.")
    return None


def _broker_refused(image: MetadataImage, name: str) -> Refused | None:
    if name == "":
        return None  # the default of all brokers
    if not name.isdecimal():
        return Refused(ErrorCode.INVALID_REQUEST, f"Invalid broker name {name}")
    if int(name) not in image.brokers:
        return Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
    return None


def _replaced(replacement: ConfigReplacement) -> dict[str, str] | Refused:
    nulls = [key for key, value in replacement.configs if value is None]
    if nulls:
        return Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    target = {key: value for key, value in replacement.configs if value is not None}
    if len(target) != len(replacement.configs):
        return Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    return target


def _edited(image: MetadataImage, edits: ConfigEdits, judge: ConfigJudge) -> dict[str, str] | Refused:
    keys = [edit.key for edit in edits.edits]
    if len(set(keys)) != len(keys):
        return Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [edit.key for edit in edits.edits if edit.value is None and edit.operation != ConfigOperation.DELETE]
    if nulls:
        return Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    target = dict(image.config(edits.resource_type, edits.resource_name))
    for edit in edits.edits:
        refused = _edit(target, edits.resource_type, edit, judge)
        if refused is not None:
            return refused
    if edits.resource_type == ResourceType.TOPIC and RETENTION_HOLD not in keys and not ENDS_HOLD.isdisjoint(keys):
        target.pop(RETENTION_HOLD, None)
    return target


def _edit(target: dict[str, str], resource_type: int, edit: ConfigEdit, judge: ConfigJudge) -> Refused | None:
    match edit.operation:
        case ConfigOperation.SET:
            target[edit.key] = edit.value or ""
        case ConfigOperation.DELETE:
            target.pop(edit.key, None)
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            if not judge.is_list(resource_type, edit.key):
                verb = "APPEND to" if edit.operation == ConfigOperation.APPEND else "SUBTRACT from"
                return Refused(ErrorCode.INVALID_CONFIG, f"Can't {verb} key {edit.key} because its type is not LIST.")
            target[edit.key] = _edit_list(target.get(edit.key), resource_type, edit, judge)
        case _:
            return Refused(ErrorCode.INVALID_REQUEST, f"Unknown operation type {edit.operation}.")
    return None


def _edit_list(value: str | None, resource_type: int, edit: ConfigEdit, judge: ConfigJudge) -> str:
    now = _parts(judge.default(resource_type, edit.key) if value is None else value)
    given = _parts(edit.value)
    if edit.operation == ConfigOperation.SUBTRACT:
        return ",".join(part for part in now if part not in given)
    return ",".join(now + [part for part in dict.fromkeys(given) if part not in now])


def _parts(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
