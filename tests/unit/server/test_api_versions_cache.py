"""The answer every connection asks for is made once, and again when what it tells has changed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.config.settings import Settings
from moldau.server.handlers import api_versions
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.server.harness import Stage

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def image(offset: int) -> SimpleNamespace:
    return SimpleNamespace(offset=offset, features={"metadata.version": 29})


def test_the_answer_is_made_once_per_version_image_and_settings(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = api_versions._response

    def counted(context: object) -> object:
        made.append(1)
        return make(context)  # type: ignore[arg-type]

    monkeypatch.setattr(api_versions, "_response", counted)
    holder = stage.services.images = SimpleNamespace(image=image(7))
    client = stage.connect()
    first = client.call(ApiKey.API_VERSIONS, 3, ASK)
    assert client.call(ApiKey.API_VERSIONS, 3, ASK) == first
    assert first.finalized_features_epoch == 7
    assert len(first.api_keys) > 40
    assert len(made) == 1
    client.call(ApiKey.API_VERSIONS, 4, ASK)
    assert len(made) == 2
    holder.image = image(8)
    assert client.call(ApiKey.API_VERSIONS, 3, ASK).finalized_features_epoch == 8
    stage.services.settings = Settings()
    client.call(ApiKey.API_VERSIONS, 3, ASK)
    assert len(made) == 4
