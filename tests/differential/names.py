"""Answers as comparable data: what must differ between two brokers gets the same name on both sides.

Nothing is dropped. An id is named after where it was first told, so that the same id must appear in the same places.
"""

from __future__ import annotations

import re
import time
from typing import Any

from moldau.records.batch import iterate_headers
from moldau.records.reader import read_batch
from moldau.wire.primitives import NIL_UUID
from tests.contract.wire.shapes import Case
from tests.differential.mutations import STRANGE_ID
from tests.differential.shape import fields_of

UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UUID_SHORT = re.compile(r"[A-Za-z0-9_-]{22}")
TOPIC_NAME_FIELDS = ("name", "topic", "topic_name")
TEXT_FIELDS = frozenset({"error_message", "batch_index_error_message", "documentation"})
"""Sentences for people: that there is one is compared, not its words."""
CLOCK_SLACK_MS = 10_000


class Names:
    """The names of one broker's ids; `scenario()` forgets those that belong to one scenario."""

    def __init__(self, port: int, data_dir: str) -> None:
        self._port = port
        self._data_dir = data_dir
        self._began_ms = int(time.time() * 1000) - CLOCK_SLACK_MS
        self._topics: dict[bytes, str] = {}
        self._current: dict[str, bytes] = {}
        self._cluster_id: str | None = None
        self._producers: dict[int, str] = {}
        self._scenario = ""
        self._told: dict[tuple[str, Any], str] = {}

    def scenario(self, name: str) -> None:
        self._scenario = name
        self._told = {}

    def topic_id(self, name: str) -> bytes:
        return self._current.get(name, NIL_UUID)

    # Learning

    def learn(self, message: Any, case: Case, struct: str | None = None) -> None:
        """Which topic has which id: told wherever an answer has both. Which producer: told to itself."""
        fields = {item.snake: item for item in fields_of(case, struct)}
        topic = next((getattr(message, name) for name in TOPIC_NAME_FIELDS if name in fields), None)
        right = getattr(message, "error_code", 0) == 0  # a refusal may repeat a wrong id that was asked for
        if right and topic and "topic_id" in fields and message.topic_id != NIL_UUID:
            self._meet_topic(topic, bytes(message.topic_id))
        if case.name == "InitProducerIdResponse" and message.producer_id >= 0:
            number = sum(1 for told in self._producers.values() if told.startswith(f"<{self._scenario}:"))
            self._producers.setdefault(int(message.producer_id), f"<{self._scenario}: producer {number + 1}>")
        for name, item in fields.items():
            inner = getattr(message, name)
            if item.is_struct and inner is not None:
                for element in inner if item.is_array else (inner,):
                    self.learn(element, case, item.element_type)

    def _meet_topic(self, name: str, topic_id: bytes) -> None:
        if topic_id not in self._topics:
            earlier = sum(1 for text in self._topics.values() if text.split("#")[0] == f"<id of {name}")
            self._topics[topic_id] = f"<id of {name}" + (f"#{earlier + 1}>" if earlier else ">")
            self._current[name] = topic_id

    # Writing

    def plain(self, message: Any, case: Case, struct: str | None = None) -> dict[str, Any]:
        """The fields this version has, with names in place of ids."""
        return {item.snake: self._field(getattr(message, item.snake), item, case) for item in fields_of(case, struct)}

    def _field(self, value: Any, item: Any, case: Case) -> Any:
        if value is None:
            return None
        if item.is_array:
            return [self._element(element, item, case) for element in value]
        return self._element(value, item, case)

    def _element(self, value: Any, item: Any, case: Case) -> Any:
        kind, name = item.element_type, item.snake
        if item.is_struct:
            return self.plain(value, case, kind)
        if kind == "uuid":
            return self._uuid(bytes(value))
        if kind == "records":
            return [self._batch(bytes(value), position, header) for position, header in iterate_headers(bytes(value))]
        if kind == "bytes":
            return self._text(bytes(value).decode("latin-1"))
        if kind == "string":
            return self._string(value, name)
        if kind in ("int32", "int64"):
            return self._number(int(value), name)
        return value if isinstance(value, (bool, float)) else int(value)

    def _uuid(self, value: bytes) -> str:
        if value in self._topics:
            return self._topics[value]
        if value == NIL_UUID:
            return "<zero id>"
        return value.hex() if value == STRANGE_ID else self._tell("uuid", value)

    def _string(self, value: str, name: str) -> str:
        if name in TEXT_FIELDS:
            return "<text>" if value else ""
        if name == "cluster_id" and value:
            self._cluster_id = self._cluster_id or value
            return "<cluster id>" if value == self._cluster_id else value
        if name == "member_id" and UUID_SHORT.fullmatch(value):
            return self._tell("id", value)
        return self._text(value)

    def _text(self, value: str) -> str:
        value = value.replace(self._data_dir, "<data>").replace(f":{self._port}", ":<port>")
        return UUID_TEXT.sub(lambda match: self._tell("id", match.group()), value)

    def _number(self, value: int, name: str) -> Any:
        if name == "port" and value == self._port:
            return "<port>"
        if name == "producer_id" and value >= 0:
            return self._producers.get(value, value)
        if name == "session_id" and value > 0:
            return self._tell("session", value)
        if name in ("total_bytes", "usable_bytes") and value > 0:
            return "<bytes>"
        if self._began_ms <= value <= int(time.time() * 1000) + CLOCK_SLACK_MS:
            return "<now>"
        return value

    def _tell(self, kind: str, value: Any) -> str:
        known = sum(1 for told_kind, _ in self._told if told_kind == kind)
        return self._told.setdefault((kind, value), f"<{kind} {known + 1}>")

    def _batch(self, data: bytes, position: int, header: Any) -> dict[str, Any]:
        return {
            "base_offset": int(header.base_offset),
            "last_offset": int(header.last_offset),
            "leader_epoch": int(header.partition_leader_epoch),
            "attributes": int(header.attributes),
            "base_timestamp": self._number(int(header.base_timestamp), "timestamp"),
            "max_timestamp": self._number(int(header.max_timestamp), "timestamp"),
            "producer_id": self._number(int(header.producer_id), "producer_id"),
            "producer_epoch": int(header.producer_epoch),
            "base_sequence": int(header.base_sequence),
            "records": [self._record(record) for record in read_batch(data, position, header)],
        }

    def _record(self, record: Any) -> list[Any]:
        key, value = (None if part is None else part.decode("latin-1") for part in (record.key, record.value))
        headers = [[name, None if content is None else content.decode("latin-1")] for name, content in record.headers]
        return [int(record.offset), self._number(int(record.timestamp), "timestamp"), key, value, headers]
