"""The broker's own log: lines for people or JSON for collectors, on the standard `logging`.

Names come from clients and may hold anything. A line break in a client id must not forge a line of its own and an
escape sequence must not reach a terminal, so control characters are written as escapes and continued lines are marked.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final, TextIO

from moldau.runtime.log_file import BoundedLog

TRACE: Final = 5
"""Kafka's loggers know a level below DEBUG; `logging` does not."""

LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's level names, which clients use to change levels on a running broker."""

ROOT: Final = "root"
_CONTINUED: Final = "\n    | "
_NAMES: Final = {number: name for name, number in LEVELS.items()}
_STANDARD_FIELDS: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
# C0, DEL and C1 controls, and the characters that reorder or hide text (Trojan Source).
_UNSAFE: Final = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if code not in (9, 10)
}


def neutralise(text: str) -> str:
    """`text` with control characters shown as escapes; tabs and line breaks stay."""
    return text if text.isascii() and text.isprintable() else text.translate(_UNSAFE)


def one_line(text: str) -> str:
    """`text` for the middle of a sentence: nothing in it can end the line or move the cursor."""
    return neutralise(text).replace("\n", "\\n").replace("\t", "\\t")


def level_number(name: str) -> int:
    """The number of a level by Kafka's or Python's name, in any case; ValueError when there is none."""
    upper = {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(name.upper(), name.upper())
    if upper not in LEVELS:
        raise ValueError(f"{name} is not a log level; there are {', '.join(LEVELS)}")
    return LEVELS[upper]


def level_name(number: int) -> str:
    """Kafka's name of the level in force at `number`."""
    return next((name for name, low in reversed(LEVELS.items()) if number >= low), "TRACE")


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123 INFO  moldau.server  message`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = _NAMES.get(record.levelno, record.levelname)
        text = f"{stamp}.{int(record.msecs):03d} {level:<5} {record.name}  {record.getMessage()}"
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        if record.stack_info:
            text = f"{text}\n{record.stack_info}"
        return neutralise(text).replace("\n", _CONTINUED)


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, what `extra` added, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": _NAMES.get(record.levelno, record.levelname),
            "logger": record.name,
            "message": neutralise(record.getMessage()),
        }
        line.update((key, value) for key, value in vars(record).items() if key not in _STANDARD_FIELDS)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(
    *, level: str = "INFO", as_json: bool = False, stream: TextIO | None = None, path: str = ""
) -> logging.Handler:
    """Send the log to `stream` (standard error by default) or to the file `path`. Replaces what an earlier call
    installed."""
    logging.addLevelName(TRACE, "TRACE")
    handler = BoundedLog(path) if path else logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    handler.set_name("moldau")
    root = logging.getLogger()
    for existing in [existing for existing in root.handlers if existing.get_name() == "moldau"]:
        root.removeHandler(existing)
    root.addHandler(handler)
    root.setLevel(level_number(level))
    return handler


def logger_levels() -> dict[str, str]:
    """Every logger of this process with the level in force, sorted; the root logger is called `root`."""
    names = sorted(
        name for name, logger in logging.Logger.manager.loggerDict.items() if isinstance(logger, logging.Logger)
    )
    levels = {ROOT: level_name(logging.getLogger().getEffectiveLevel())}
    levels.update((name, level_name(logging.getLogger(name).getEffectiveLevel())) for name in names)
    return levels


def logger_exists(name: str) -> bool:
    return name == ROOT or isinstance(logging.Logger.manager.loggerDict.get(name), logging.Logger)


def set_logger_level(name: str, level: str) -> None:
    """Change one logger while the broker runs."""
    _logger(name).setLevel(level_number(level))


def unset_logger_level(name: str) -> None:
    """Let a logger follow its parent again."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
