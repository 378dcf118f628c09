from __future__ import annotations

from pathlib import Path

import pytest

from .engines import ENGINES, Engine


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return ENGINES[request.param](tmp_path)
