"""The broker of the directory one works in: what the commands talk to unless told otherwise.

`moldau up` takes another port when 9092 is busy. Whoever then works in the same directory means that broker, not the
one that happens to listen on 9092.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from moldau.cli import run_file
from moldau.cli.errors import PlainError
from moldau.runtime.file_lock import is_held

DEFAULT_DATA_DIR: Final = "moldau-data"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
DEFAULT_IN_WORDS: Final = f"the broker of ./{DEFAULT_DATA_DIR}, else {DEFAULT_BOOTSTRAP}"


def data_dir_option(data_dir: Path) -> str:
    """What a command needs typed after it to mean this directory."""
    return "" if str(data_dir) == DEFAULT_DATA_DIR else f" --data-dir {data_dir}"


def default_bootstrap() -> str:
    """Where commands look for the cluster when neither an option nor the environment says."""
    data_dir = Path(DEFAULT_DATA_DIR)
    running = run_file.read(data_dir)
    if running is not None:
        return running.bootstrap
    if is_held(run_file.lock_path(data_dir)):
        raise PlainError(
            "MD-1001",
            "the broker of this directory is not ready",
            facts=[("data", str(data_dir)), ("why", "it is starting or stopping, and its address is not known yet")],
            fixes=["try again in a moment", "or name the address with -b HOST:PORT"],
        )
    return DEFAULT_BOOTSTRAP
