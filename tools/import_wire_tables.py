"""Turn Kafka's message definitions (a folder of JSON files) into moldau's message tables.

Run once per Kafka release: `python tools/import_wire_tables.py FOLDER...`; then run `tools/generate_wire.py`. Only the
facts go over: names, types, versions, nullability, tags, defaults. Everything below works from the committed tables.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from wiregen.tables import Field, Message, Struct, format_table, parse_versions, snake_case

SCHEMA = Path(__file__).resolve().parent.parent / "src" / "moldau" / "wire" / "schema"
KINDS_IN_ORDER = ("request", "response", "coordinator-key", "coordinator-value", "data")
HAND_WRITTEN = frozenset({"RequestHeader", "ResponseHeader"})  # wire/headers.py


def main(folders: list[str]) -> None:
    tables: dict[str, list[Message]] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("*.json")):
            message = import_message(json.loads(without_comments(path.read_text())))
            if message.versions and message.name not in HAND_WRITTEN:
                tables.setdefault(table_name(message), []).append(message)
    SCHEMA.mkdir(parents=True, exist_ok=True)
    for old in SCHEMA.glob("*.table"):
        old.unlink()
    for name, messages in sorted(tables.items()):
        messages.sort(key=lambda message: KINDS_IN_ORDER.index(message.kind))
        (SCHEMA / f"{name}.table").write_text(format_table(messages))
    print(f"{len(tables)} tables, {sum(map(len, tables.values()))} messages")


def without_comments(text: str) -> str:
    return re.sub(r"(?m)(^|\s)//.*$", "", text)


def table_name(message: Message) -> str:
    """Request and response share a table, key and value of a coordinator record another."""
    if message.kind in ("request", "response"):
        return snake_case(message.name.removesuffix("Request").removesuffix("Response"))
    if message.kind.startswith("coordinator"):
        return snake_case(message.name.removesuffix("Key").removesuffix("Value")) + "_record"
    return snake_case(message.name)


def import_message(raw: dict[str, Any]) -> Message:
    return Message(
        kind=raw["type"],
        name=raw["name"],
        versions=parse_versions(raw["validVersions"]),
        flexible=parse_versions(raw.get("flexibleVersions", "none")),
        key=raw.get("apiKey"),
        listeners=tuple(sorted(raw.get("listeners", ()))),
        latest_unstable=bool(raw.get("latestVersionUnstable", False)),
        fields=[import_field(item) for item in raw.get("fields", ())],
        shared=[
            Struct(item["name"], [import_field(x) for x in item["fields"]]) for item in raw.get("commonStructs", ())
        ],
    )


def import_field(raw: dict[str, Any]) -> Field:
    versions = parse_versions(raw.get("versions") or raw["taggedVersions"])
    if "tag" in raw and parse_versions(raw["taggedVersions"]) != versions:
        raise ValueError(f"{raw['name']} is tagged in some of its versions only")
    return Field(
        name=raw["name"],
        type=raw["type"],
        versions=versions,
        nullable=parse_versions(raw.get("nullableVersions", "none")),
        tag=raw.get("tag"),
        default=import_default(raw),
        fields=[import_field(item) for item in raw.get("fields", ())],
    )


def import_default(raw: dict[str, Any]) -> str | None:
    value = raw.get("default")
    if value is None:  # also where the JSON says null: Kafka's generator takes only the string "null" for null
        return None
    text = str(value)
    if raw["type"] == "bool":
        return text.lower()
    if raw["type"].startswith(("int", "uint")):
        return str(int(text, 0))
    return text or None  # an empty string is the default anyway


if __name__ == "__main__":
    main(sys.argv[1:])
