"""Commands that messages and pages tell people to type: their verbs and options exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from moldau.cli.main import SUBCOMMANDS, root

HOME = Path(__file__).parents[3]
PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md")), *sorted((HOME / "examples").glob("**/*.md"))]
TYPED = re.compile(r"\bmoldau +([a-z]+)((?:[ \t]+[^\s`;|&)]+)*)")
OPTION = re.compile(r"--?[A-Za-z][A-Za-z-]*")


def texts(tree: ast.AST) -> Iterator[str]:
    """String literals; what an f-string fills in becomes a word of its own."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else " X " for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def command_of(words: list[str]) -> tuple[click.Command | None, list[str]]:
    context = click.Context(root)
    command = root.get_command(context, words[0])
    if isinstance(command, click.Group) and len(words) > 1 and re.fullmatch(r"[a-z][a-z-]*", words[1]):
        return command.commands.get(words[1]), words[2:]
    return command, words[1:]


def wrong(text: str) -> Iterator[str]:
    """Commands that could not be typed so."""
    for found in TYPED.finditer(text.replace("\\\n", " ")):
        if found[1] not in SUBCOMMANDS:
            continue
        words = [found[1], *found[2].split()]
        command, rest = command_of(words)
        known = set() if command is None else {opt for p in command.params for opt in [*p.opts, *p.secondary_opts]}
        options = [word for word in rest if OPTION.fullmatch(word)]
        if command is None or any(option not in known | {"--help", "-h"} for option in options):
            yield found[0]


def test_the_scanner_sees() -> None:
    assert list(wrong("try: moldau topic list --bootstrap X")) == ["moldau topic list --bootstrap X"]
    assert list(wrong("`moldau topic explode`")) == ["moldau topic explode"]
    assert list(wrong("moldau config set topic NAME a=b, moldau up, and moldau is fine")) == []
    assert list(wrong("moldau consume t -o start -e | head -n 1")) == []


def test_what_messages_tell_to_type_can_be_typed() -> None:
    found = [
        (file.name, command)
        for file in sorted((HOME / "src" / "moldau").rglob("*.py"))
        if "moldau " in file.read_text()
        for text in texts(ast.parse(file.read_text()))
        for command in wrong(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_tell_to_type_can_be_typed(page: Path) -> None:
    assert list(wrong(page.read_text())) == []
