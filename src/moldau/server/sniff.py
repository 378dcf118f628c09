"""Recognise what is not Kafka by its first bytes, and say so in words a person understands.

Read as the size of a frame, `GET ` is 1.2 GB and a TLS ClientHello 370 MB, so only a size beyond the cap is ever
looked at here. Kafka logs a baffling "Invalid receive" in these cases.
"""

from __future__ import annotations

from typing import Final

HTTP_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")

TLS_WORDS: Final = (
    "this client speaks TLS, and this listener is plaintext; set security.protocol=PLAINTEXT in the client, "
    "or give the broker a TLS listener and use its port"
)


def is_http(head: bytes) -> bool:
    return head[:4] in HTTP_METHODS


def is_tls(head: bytes) -> bool:
    """A TLS handshake record, version 3.x."""
    return len(head) >= 2 and head[0] == 0x16 and head[1] == 0x03


def http_page(host: str, port: int) -> bytes:
    """An answer for a browser or curl that came to the Kafka port."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    text = (
        "This is the Kafka port of a moldau broker. It speaks the Kafka protocol, not HTTP.\n"
        "\n"
        "Connect a Kafka client to it:\n"
        "\n"
        f"    bootstrap.servers={address}\n"
        "\n"
        "or try it from a shell:\n"
        "\n"
        f"    moldau topic list -b {address}\n"
        f"    kcat -b {address} -L\n"
    )
    body = text.encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
