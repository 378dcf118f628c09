"""Asking before something is destroyed: on a terminal only, so that scripts go on as they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

YES: Callable[[F], F] = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN: Callable[[F], F] = click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")


def ask(question: str, *, yes: bool) -> None:
    """Go on, or end with status 1. Never from inside an event loop, which would not notice Ctrl-C."""
    if yes or not sys.stdin.isatty():
        return
    click.confirm(question, abort=True, err=True)
