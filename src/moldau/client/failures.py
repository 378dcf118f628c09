"""What can go wrong for a client, by who must act."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.model.failures import WorldError


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


def raise_for(code: int, detail: str | None = None, *, subject: str = "") -> None:
    """Turn a non-zero error code of a response into `BrokerRefused`."""
    if code != 0:
        raise BrokerRefused(ErrorCode(code), detail or "", subject=subject)
