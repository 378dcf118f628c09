"""Schemas from a schema registry (Confluent's HTTP API), asked once per process."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

from moldau.spark.types import ReadFailed

_TIMEOUT_S: Final = 10.0
_PAUSES_S: Final = (0.0, 0.2, 1.0)
_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500

_ABSENT_FOR_S: Final = 10.0
"""How long a missing schema is believed to be missing: replicas of a registry lag behind, but a topic of bytes that are
no Avro at all must not become a request for each record."""

_ABSENT_MAX: Final = 10_000
"""Ids remembered as missing: they come out of the records, so there may be any number of them."""

_schemas: dict[tuple[str, str], str] = {}
_absent_until_s: dict[tuple[str, str], float] = {}


def schema_by_id(registry: str, schema_id: int) -> str | None:
    """The schema with this id, or None when the registry has none. `ReadFailed` when the registry does not answer."""
    key = (registry, f"/schemas/ids/{schema_id}")
    if key not in _schemas and time.monotonic() >= _absent_until_s.get(key, 0.0):
        found = _schema_at(*key)
        if found is None:
            if len(_absent_until_s) >= _ABSENT_MAX:
                _absent_until_s.clear()
            _absent_until_s[key] = time.monotonic() + _ABSENT_FOR_S
        else:
            _schemas[key] = found
    return _schemas.get(key)


def latest_schema(registry: str, subject: str) -> str | None:
    """The newest schema of a subject (`<topic>-value`), never remembered: it may change."""
    return _schema_at(registry, f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")


def _schema_at(registry: str, path: str) -> str | None:
    for last, pause_s in [(False, pause_s) for pause_s in _PAUSES_S[:-1]] + [(True, _PAUSES_S[-1])]:
        time.sleep(pause_s)
        try:
            found = _get(registry, path)
        except urllib.error.HTTPError as refusal:
            if refusal.code == _NOT_FOUND:
                return None
            if last or refusal.code < _SERVER_ERROR:
                raise ReadFailed(f"the schema registry {registry} answered {refusal.code} to {path}") from None
        except (OSError, ValueError) as failure:
            if last:
                raise ReadFailed(f"the schema registry {registry} does not answer {path}: {failure}") from None
        else:
            if found.get("schemaType", "AVRO") != "AVRO":
                raise ReadFailed(f"the schema registry {registry} has no Avro at {path}, but {found['schemaType']}")
            return str(found["schema"])
    raise AssertionError("unreachable")


def _get(registry: str, path: str) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(registry)
    if parts.scheme not in ("http", "https"):
        raise ReadFailed(f"'{registry}' is not the URL of a schema registry")
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(f"{parts.scheme}://{host}{parts.path.rstrip('/')}{path}")
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
