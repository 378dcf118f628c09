"""Where a run writes its log: beside the pipeline file, the last few of them kept."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Final

KEPT: Final = 10
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def new_log(pipeline: str, run_id: str, file: Path, folder: Path | None) -> Path:
    """An empty log file of its own for this run."""
    chosen = folder.absolute() if folder is not None else file.absolute().parent / ".moldau" / "logs"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        log = chosen / f"{pipeline}-{run_id}.log"
        log.touch()
    except OSError:
        if folder is not None:
            raise
        # A pipeline file may stand where nobody may write.
        chosen = Path(tempfile.gettempdir()) / "moldau-logs"
        chosen.mkdir(parents=True, exist_ok=True)
        log = chosen / f"{pipeline}-{run_id}.log"
        log.touch()
    _forget_old(chosen, pipeline)
    return log


def log_to(log: Path) -> logging.Handler:
    """Send what moldau and Spark's Python side log to the file, and nothing to the terminal."""
    handler = logging.FileHandler(log)
    handler.setFormatter(logging.Formatter(FORMAT))
    for name, level in (("moldau", logging.INFO), ("py4j", logging.ERROR), ("pyspark", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    _quiet_traces(log)
    return handler


def _quiet_traces(log: Path) -> None:
    """Spark writes the trace of every error that has a place in SQL to standard error, as JSON; people get a sentence.

    Its loggers must be of its own class, and give each handler they get their own format.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        for given in list(logger.handlers):
            logger.removeHandler(given)
        logger.addHandler(logging.FileHandler(log))


def _forget_old(folder: Path, pipeline: str) -> None:
    logs = sorted(folder.glob(f"{pipeline}-{'[0-9]' * 14}-*.log"), key=lambda path: path.stat().st_mtime)
    for old in logs[:-KEPT]:
        old.unlink(missing_ok=True)
        old.with_suffix(".log4j2.properties").unlink(missing_ok=True)
