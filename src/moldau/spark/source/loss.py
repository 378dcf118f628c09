"""What was lost, said exactly: which offsets of which partition, why, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moldau.model.failures import MoldauError
from moldau.spark.types import lost_sentence

TOLD_MAX: Final = 10

RETENTION: Final = "removed by retention or a delete before they were read"
NEW_PARTITION: Final = "removed by retention or a delete before the query first saw the partition"
NEW_TOPIC: Final = "removed before the query began to read the topic"
CREATED_AGAIN: Final = "the topic was deleted and created again; what was not read of the old one is gone"
TOPIC_GONE: Final = "the topic does not exist any more"
NOT_SUBSCRIBED: Final = "the options do not name it any more"
PARTITION_GONE: Final = "the partition does not exist any more"
TRUNCATED: Final = (
    "the log ends before them (it was cut by an unclean leader change, the topic was created again, or they were "
    "never written)"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets [start, end) of a partition; no end means everything from `start` on, however much that was."""

    topic: str
    partition: int
    start: int
    end: int | None
    reason: str

    @property
    def breaks_a_promise(self) -> bool:
        """False where the query had not begun to read: worth a warning, but nobody was promised these records."""
        return self.reason != NEW_TOPIC

    def sentence(self) -> str:
        if self.end is not None:
            return lost_sentence(self.topic, self.partition, self.start, self.end, self.reason)
        return f"topic '{self.topic}' partition {self.partition} lost all from offset {self.start} on: {self.reason}"


class SourceDataLost(MoldauError):
    """A query would skip records that it has not read."""

    def __init__(self, losses: Sequence[Loss], what_to_do: str | None = None) -> None:
        self.losses = tuple(losses)
        super().__init__(f"{tell(losses)}. {what_to_do or advice(losses)}")


_OLDER: Final = "to prevent it raise the topic's retention or run the query more often"
_STOP_FIRST: Final = "to prevent it stop the query before the topic is deleted"
PREVENTION: Final = {
    RETENTION: _OLDER,
    NEW_PARTITION: _OLDER,
    CREATED_AGAIN: _STOP_FIRST,
    TOPIC_GONE: _STOP_FIRST,
    NOT_SUBSCRIBED: "to keep it name it in the options again",
    TRUNCATED: "to prevent it keep unclean.leader.election.enable=false",
}
BATCH_ADVICE: Final = (
    "Name offsets that are there, earliest or latest in startingOffsets and endingOffsets, or set failOnDataLoss=false "
    "to read what is left of them"
)


def advice(losses: Sequence[Loss]) -> str:
    """What to do, in a stream, by what happened: retention does not bring back a topic that was created again."""
    again = all(loss.reason == CREATED_AGAIN for loss in losses)
    go_on = "with the new topic from its beginning" if again else "without these records"
    prevention = dict.fromkeys(PREVENTION[loss.reason] for loss in losses if loss.reason in PREVENTION)
    ways = [
        f"To go on {go_on} set failOnDataLoss=false",
        "to start over give the query a new checkpoint and startingOffsets",
        *prevention,
    ]
    return "; ".join(ways)


def tell(losses: Sequence[Loss]) -> str:
    """All of them in one text, the first few word by word."""
    sentences = [loss.sentence() for loss in losses[:TOLD_MAX]]
    if len(losses) > TOLD_MAX:
        sentences.append(f"and {len(losses) - TOLD_MAX} more partitions")
    return "; ".join(sentences)
