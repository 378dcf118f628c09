"""What the log tells of how a directory was opened."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from moldau.runtime.disk import RealDisk

from .support import TOPIC_ID, log_dirs


def test_a_new_directory_was_never_stopped(disk: RealDisk, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="moldau.storage")
    path = str(tmp_path / "data")

    async def start_and_stop() -> str:
        caplog.clear()
        dirs = log_dirs(disk, path)
        await dirs.open()
        if not dirs.logs:
            dirs.create("t", TOPIC_ID, 0)
        told = [record.getMessage() for record in caplog.records if path in record.getMessage()]
        await dirs.close()
        return told[0]

    assert asyncio.run(start_and_stop()) == f"found no logs in {path}"
    assert asyncio.run(start_and_stop()) == f"opened 1 log in {path} after a clean stop"
