"""Which relations does an SQL text read? Answered from its tokens, so that references can be checked without Spark.

Only single names are of interest: `FROM views` reads the view `views`; `FROM lake.views` reads a catalog table, and
`FROM range(10)` calls a table function. Names defined by WITH belong to the text itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
# After these words FROM belongs to the function, not to a query: extract(HOUR FROM at).
_FUNCTIONS_WITH_FROM: Final = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"})
_ENDS_FROM: Final = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "UNION",
     "EXCEPT", "INTERSECT", "MINUS", "QUALIFY", "SELECT"}
)  # fmt: skip
_NOT_A_RELATION: Final = frozenset({"LATERAL", "VALUES", "SELECT", "TABLE", "STREAM", "WITH", "UNNEST"})


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    index: int
    """Where in the text."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    index: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")

    @property
    def name(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


def relations(sql: str) -> list[Relation]:
    """Every single name read as a relation, without those that WITH defines, in the order of the text."""
    tokens = [
        _Token(str(found.lastgroup), found.group(), found.start())
        for found in _TOKEN.finditer(sql)
        if found.lastgroup != "space"
    ]
    own = {name.lower() for name in _defined_by_with(tokens)}
    return [relation for relation in _read(tokens) if relation.name.lower() not in own]


def first_word(sql: str) -> str:
    """The word that says what the text does, in upper case: SELECT, WITH, DROP. Empty when there is none."""
    words = (found.group().upper() for found in _TOKEN.finditer(sql) if found.lastgroup == "word")
    return next(words, "")


def _defined_by_with(tokens: list[_Token]) -> set[str]:
    """The names before `AS (` in a text that has WITH at all; a column alias is never followed by a parenthesis."""
    if not any(token.upper == "WITH" for token in tokens):
        return set()
    names = set()
    for i in range(1, len(tokens) - 1):
        if tokens[i].upper == "AS" and tokens[i + 1].text == "(":
            before = i - 1
            if tokens[before].text == ")":  # name(column, ...) AS (
                depth = 0
                while before >= 0:
                    depth += {")": 1, "(": -1}.get(tokens[before].text, 0)
                    before -= 1
                    if depth == 0:
                        break
            if before >= 0 and tokens[before].is_name:
                names.add(tokens[before].name)
    return names


def _read(tokens: list[_Token]) -> list[Relation]:
    found: list[Relation] = []
    # One entry per open parenthesis: is it the argument list of extract(... FROM ...)? is a FROM list open in it?
    stack: list[tuple[bool, bool]] = []
    plain_from, in_from = True, False
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        word = token.upper
        if token.text == "(":
            stack.append((plain_from, in_from))
            plain_from = not (before is not None and before.upper in _FUNCTIONS_WITH_FROM)
            # FROM (a JOIN b ...): the parenthesis continues the list of relations.
            in_from = in_from and before is not None and before.upper in ("FROM", "JOIN", ",", "(")
            if in_from:
                _add(found, tokens, i + 1)
        elif token.text == ")" and stack:
            plain_from, in_from = stack.pop()
        elif (
            word == "FROM"
            and plain_from
            and not (before is not None and before.upper == "DISTINCT" and _is_test(tokens, i))
        ):
            in_from = True
            _add(found, tokens, i + 1)
        elif word == "JOIN" or (token.text == "," and in_from):
            _add(found, tokens, i + 1)
        elif word in _ENDS_FROM:
            in_from = False
    return found


def _is_test(tokens: list[_Token], index: int) -> bool:
    """`a IS [NOT] DISTINCT FROM b` compares; `SELECT DISTINCT FROM` is no SQL."""
    words = [token.upper for token in tokens[max(0, index - 3) : index]]
    return words[-2:] == ["IS", "DISTINCT"] or words == ["IS", "NOT", "DISTINCT"]


def _add(found: list[Relation], tokens: list[_Token], index: int) -> None:
    if index < len(tokens) and tokens[index].upper == "STREAM":  # FROM STREAM(name) or FROM STREAM name
        index += 1
        if index < len(tokens) and tokens[index].text == "(":
            index += 1
    if index >= len(tokens) or not tokens[index].is_name or tokens[index].upper in _NOT_A_RELATION:
        return
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if following not in (".", "("):
        found.append(Relation(tokens[index].name, tokens[index].index))
