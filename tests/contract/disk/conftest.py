from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.ports import Disk
from moldau.runtime.disk import RealDisk
from moldau_sim.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    if request.param == "simulated":
        yield SimulatedDisk()
        return
    real = RealDisk()
    yield real
    real.close()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path / "data")
    disk.make_dirs(path)
    return path
