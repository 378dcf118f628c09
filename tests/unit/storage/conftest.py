from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.runtime.disk import RealDisk


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    real = RealDisk()
    yield real
    real.close()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)
