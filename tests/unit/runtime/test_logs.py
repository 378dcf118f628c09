"""The broker's log cannot be forged by what clients call themselves."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from moldau.runtime import logs


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def written(*, as_json: bool, message: str, **extra: object) -> str:
    stream = io.StringIO()
    logs.configure(level="INFO", as_json=as_json, stream=stream)
    logging.getLogger("moldau.test").info("client %s", message, extra=extra)
    return stream.getvalue()


def test_a_line_for_people_has_time_level_logger_and_message(root: logging.Logger) -> None:
    line = written(as_json=False, message="x")
    assert line.endswith(" INFO  moldau.test  client x\n")
    assert len(line.split(" INFO")[0]) == len("2026-01-31 12:00:00.123")


def test_a_client_cannot_forge_a_line_or_move_the_cursor(root: logging.Logger) -> None:
    line = written(as_json=False, message="a\n2026-01-01 00:00:00.000 ERROR forged\x1b[2J\r\u202eb\x9b")
    assert line.count("\n") == 2
    assert "\n    | 2026-01-01" in line
    assert "\\x1b[2J\\x0d\\u202eb\\x9b" in line


def test_json_is_one_object_per_line_with_extra_fields(root: logging.Logger) -> None:
    text = written(as_json=True, message="a\nb\x1b", peer="10.0.0.1")
    assert text.count("\n") == 1
    line = json.loads(text)
    assert line["message"] == "client a\nb\\x1b"
    assert (line["level"], line["logger"], line["peer"]) == ("INFO", "moldau.test", "10.0.0.1")
    assert line["time"].endswith("Z")


def test_a_traceback_is_part_of_its_line(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("moldau.test").exception("failed")
    lines = stream.getvalue().splitlines()
    assert "ERROR" in lines[0]
    assert all(line.startswith("    | ") for line in lines[1:])
    assert lines[-1] == "    | ValueError: boom"


def test_configuring_twice_does_not_write_twice(root: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure(stream=first)
    logs.configure(stream=second)
    logging.getLogger("moldau.test").warning("once")
    assert (first.getvalue(), second.getvalue().count("once")) == ("", 1)


def test_levels_have_kafkas_names_and_take_pythons(root: logging.Logger) -> None:
    assert logs.level_number("warning") == logging.WARNING == logs.level_number("WARN")
    assert logs.level_number("fatal") == logging.CRITICAL
    assert logs.level_name(logging.WARNING) == "WARN"
    assert logs.level_name(35) == "WARN"
    assert logs.level_name(0) == "TRACE"
    with pytest.raises(ValueError, match="TRACE, DEBUG, INFO, WARN, ERROR, FATAL"):
        logs.level_number("loud")


def test_a_logger_is_changed_and_follows_its_parent_again(root: logging.Logger) -> None:
    logging.getLogger("moldau.test.one")
    logs.set_logger_level("root", "ERROR")
    logs.set_logger_level("moldau.test.one", "trace")
    assert logs.logger_levels()["moldau.test.one"] == "TRACE"
    logs.unset_logger_level("moldau.test.one")
    assert logs.logger_levels()["moldau.test.one"] == logs.logger_levels()["root"] == "ERROR"
    assert logs.logger_exists("root")
    assert not logs.logger_exists("moldau.test.never")


def test_one_line_keeps_a_name_on_its_line() -> None:
    assert logs.one_line("a\n\tb\x00") == "a\\n\\tb\\x00"
    assert logs.one_line("plain") == "plain"
