"""What can go wrong for a client, by who must act."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.model.failures import WorldError
from moldau.model.ids import TopicPartition


class NoBrokerAnswers(WorldError):
    """None of the bootstrap addresses accepted a connection and spoke the protocol."""

    def __init__(self, addresses: str, why: str) -> None:
        super().__init__(f"no broker answers at {addresses}: {why}")
        self.addresses = addresses
        self.why = why


class AnswerTimedOut(WorldError):
    """A broker accepted a request and did not answer it in time."""

    def __init__(self, address: str, api_name: str, timeout_s: float) -> None:
        super().__init__(f"{address} did not answer {api_name} within {timeout_s:g} s")
        self.address = address
        self.api_name = api_name
        self.timeout_s = timeout_s


class BrokerRefused(WorldError):
    """A broker understood a request and denied it."""

    def __init__(self, code: ErrorCode, detail: str = "", *, subject: str = "") -> None:
        where = f"{subject}: " if subject else ""
        super().__init__(f"{where}{code.name}" + (f": {detail}" if detail else ""))
        self.code = code
        self.detail = detail
        self.subject = subject


class UnknownPartition(BrokerRefused):
    """The topic is there, this partition of it is not."""

    def __init__(self, partition: TopicPartition, count: int) -> None:
        there = "partition 0 alone" if count == 1 else f"partitions 0 to {count - 1}"
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic has {there}", subject=str(partition))
        self.partition = partition


class OutOfRange(BrokerRefused):
    """An offset that the log does not hold."""

    def __init__(self, partition: TopicPartition, offset: int, start: int, end: int) -> None:
        holds = f"the log holds {start} to {end - 1}" if start < end else f"the log is empty and goes on at {end}"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"asked for offset {offset}; {holds}", subject=str(partition))


def raise_for(code: int, detail: str | None = None, *, subject: str = "") -> None:
    """Turn a non-zero error code of a response into `BrokerRefused`."""
    if code != 0:
        raise BrokerRefused(ErrorCode(code), detail or "", subject=subject)
