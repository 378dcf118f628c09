"""What a handler may return besides a response message.

Compiled: the connection looks at these on every request.

- a response object of the API: encoded at once, in request order;
- `Encoded`: a body that was encoded before (cached Metadata); only the header is written anew;
- `parking.Parked`: the answer comes later (long poll, acks=all); it keeps its place in the order of replies;
- `NO_REPLY`: the protocol has no answer (Produce with acks=0);
- `Drop`: close the connection instead of answering (an error where no answer exists);
- a coroutine: run by the server, its result is one of the above.
"""

from __future__ import annotations

from typing import Final


class Encoded:
    """A response body in its final bytes, for the request's API version, without the response header."""

    def __init__(self, body: bytes) -> None:
        self.body = body


class NoReply:
    """The request is done and has no answer."""


class Drop:
    """Close the connection; `reason` goes to the log."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Failed:
    """What a parked answer became when completing it raised: our bug, answered like any other."""

    def __init__(self, error: Exception) -> None:
        self.error = error


NO_REPLY: Final = NoReply()
