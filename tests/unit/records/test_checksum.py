"""CRC32C, whichever library computes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.records import checksum

CHECK_VALUE = 0xE3069283


def implementations() -> list[tuple[str, checksum.Checksum]]:
    found: list[tuple[str, checksum.Checksum]] = [("pure", checksum.crc32c_pure)]
    for name, load in checksum.LIBRARIES:
        try:
            found.append((name, load()))
        except ImportError:
            continue
    return found


IMPLEMENTATIONS = implementations()


@pytest.mark.parametrize(("name", "crc"), IMPLEMENTATIONS)
def test_the_check_value_of_the_standard(name: str, crc: checksum.Checksum) -> None:
    assert crc(b"123456789") == CHECK_VALUE
    assert crc(b"") == 0


@pytest.mark.parametrize(("name", "crc"), IMPLEMENTATIONS)
@pytest.mark.parametrize("wrap", [bytes, bytearray, lambda data: memoryview(bytearray(data))])
def test_any_buffer_and_in_pieces(name: str, crc: checksum.Checksum, wrap: Callable[[bytes], checksum.Buffer]) -> None:
    data = bytes(range(256)) * 5
    assert crc(wrap(data)) == checksum.crc32c_pure(data)
    assert crc(wrap(data[100:]), crc(wrap(data[:100]))) == checksum.crc32c_pure(data)


def test_the_first_library_that_imports_is_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> checksum.Checksum:
        raise ImportError

    monkeypatch.setattr(checksum, "LIBRARIES", (("gone", missing), ("here", lambda: checksum.crc32c_pure)))
    assert checksum.pick()[0] == "here"
    monkeypatch.setattr(checksum, "LIBRARIES", (("gone", missing),))
    assert checksum.pick() == ("pure", checksum.crc32c_pure)
