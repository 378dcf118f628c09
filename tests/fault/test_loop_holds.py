"""The requests of `loop_holds` are whole, and none of the APIs is forgotten. How long they hold, the tool says."""

from __future__ import annotations

import uuid

from moldau.server.api_table import APIS
from moldau.wire.apis import request_codec
from moldau.wire.headers import decode_request_header
from moldau.wire.primitives import Reader
from tests.fault.large_requests import SKIPPED, World, questions

WORLD = World(["one", "two"], [uuid.UUID(int=1), uuid.UUID(int=2)], ["group"])


def test_every_api_is_asked() -> None:
    asked = {question.api for question in questions(WORLD, 8)}
    assert asked | SKIPPED == {api.name for api in APIS}


def test_what_is_asked_can_be_read() -> None:
    for question in questions(WORLD, 8):
        for frame in question.frames:
            reader = Reader(frame)
            header = decode_request_header(reader)
            request_codec(header.api_key)[0](reader, header.api_version)
            assert reader.remaining == 0, question
