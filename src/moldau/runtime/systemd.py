"""Tell systemd (`Type=notify`) how the service is doing. Without NOTIFY_SOCKET it says nothing."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """`READY=1`, `STOPPING=1`, `STATUS=...`; a missing or deaf supervisor is no reason to fail."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_systemd:
            to_systemd.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)
    except OSError:
        return
