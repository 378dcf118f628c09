"""moldau itself, as a user would start it.

`MOLDAU_PYTHON` names the interpreter of the installation to measure (the compiled one); by default it is the
interpreter that runs the benchmark, with this checkout's sources when moldau is not installed there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.base import Peer
from bench.peers.kafka import BENCH_SETTINGS

SOURCES = Path(__file__).resolve().parents[2] / "src"
HOT_MODULE = "moldau.records.batch"


def interpreter() -> str:
    return os.environ.get("MOLDAU_PYTHON", sys.executable)


def environment() -> dict[str, str]:
    """Add the checkout's sources only where moldau is not installed, so that a compiled install is never shadowed."""
    probe = subprocess.run([interpreter(), "-c", "import moldau"], capture_output=True, cwd="/")
    return {} if probe.returncode == 0 else {"PYTHONPATH": str(SOURCES)}


def is_compiled() -> bool:
    code = f"import {HOT_MODULE} as m; print(m.__file__)"
    done = subprocess.run(
        [interpreter(), "-c", code], capture_output=True, text=True, cwd="/", env={**os.environ, **environment()}
    )
    return done.stdout.strip().endswith((".so", ".pyd"))


@dataclass
class Moldau(Peer):
    name: str = "moldau"
    arguments: tuple[str, ...] = ()

    def prepare(self) -> None:
        self.environment = environment()

    @property
    def data_dir(self) -> Path:
        return self.work_dir / "data"

    def command(self) -> Sequence[str]:
        return (
            *(interpreter(), "-m", "moldau", "up"),
            *("--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self.port}"),
            *(part for key, value in BENCH_SETTINGS.items() for part in ("--set", f"{key}={value}")),
            *self.arguments,
        )
