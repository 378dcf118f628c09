"""Many topics are created a part at a time; who asks cannot tell."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from moldau.core.metadata.commands import CreatedTopic, CreateTopics, CreateTopicsReply
from moldau.model.errors import ErrorCode, Refused
from moldau.server.handlers import create_topics
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

NAMES = [f"topic-{number}" for number in range(250)]


class Controller:
    """Refuses a name that is given twice, as the real one does."""

    def __init__(self) -> None:
        self.asked: list[CreateTopics] = []

    async def submit(self, command: CreateTopics) -> CreateTopicsReply:
        self.asked.append(command)
        names = [topic.name for topic in command.topics]
        outcomes: list[Any] = [
            Refused(ErrorCode.INVALID_REQUEST, "twice")
            if names.count(name) > 1
            else CreatedTopic(name, topic_id=name.encode().ljust(16)[:16], partitions=1, replication_factor=1)
            for name in names
        ]
        return CreateTopicsReply(tuple(outcomes))


def create(names: list[str]) -> tuple[CreateTopicsResponse, list[CreateTopics], int]:
    """The answer, what the controller was asked, and how often others had their turn meanwhile."""
    controller = Controller()
    context: Any = SimpleNamespace(services=SimpleNamespace(controller=controller), api_version=4)
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names], validate_only=True)

    async def main() -> tuple[CreateTopicsResponse, int]:
        turns = 0
        work = asyncio.ensure_future(create_topics.handle(request, context))
        while not work.done():
            turns += 1
            await asyncio.sleep(0)
        return work.result(), turns

    response, turns = asyncio.run(main())
    return response, controller.asked, turns


def test_others_have_their_turn_between_the_parts() -> None:
    response, asked, turns = create(NAMES)
    assert [row.name for row in response.topics] == NAMES
    assert [len(command.topics) for command in asked] == [100, 100, 50]
    assert all(command.validate_only for command in asked)
    assert turns > len(asked)


def test_a_name_given_twice_is_refused_once_wherever_it_stands() -> None:
    response, _, _ = create([*NAMES, NAMES[3]])
    assert [row.name for row in response.topics] == NAMES
    assert [row.name for row in response.topics if row.error_code == ErrorCode.INVALID_REQUEST] == [NAMES[3]]
