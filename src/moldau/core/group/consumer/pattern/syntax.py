"""RE2's syntax, read into a tree.

Known: literals, `.`, classes with ranges, negation, `\\d\\w\\s`, `[[:alpha:]]`, `\\p{..}`; alternation; groups, named
or not, with the flags i, m, s, U; greedy and lazy repetition, counted up to 1000; `^ $ \\A \\z \\b \\B`; `\\Q...\\E`;
escapes by number. Whether a repetition is lazy makes no difference here: we only ask whether a name matches, not where.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeAlias

from moldau.core.group.consumer.pattern import charsets

CHARACTERS_MAX: Final = 1_000
REPEAT_MAX: Final = 1_000
DEPTH_MAX: Final = 100

_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = frozenset("01234567")


class PatternError(ValueError):
    """Not an expression we accept; the text says why."""


class Place(enum.Enum):
    """Conditions on where one is."""

    BEGIN = enum.auto()
    END = enum.auto()
    WORD_EDGE = enum.auto()
    NO_WORD_EDGE = enum.auto()


class Chars(NamedTuple):
    chosen: int


class At(NamedTuple):
    place: Place


class Sequence(NamedTuple):
    parts: tuple[Node, ...]


class Choice(NamedTuple):
    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    part: Node
    least: int
    most: int | None


Node: TypeAlias = Chars | At | Sequence | Choice | Repeat

_PLACES: Final = {"A": Place.BEGIN, "z": Place.END, "b": Place.WORD_EDGE, "B": Place.NO_WORD_EDGE}


def parse(text: str) -> Node:
    if len(text) > CHARACTERS_MAX:
        raise PatternError(f"longer than {CHARACTERS_MAX} characters")
    parser = _Parser(text)
    node = parser.choice(0)
    if parser.more:
        raise PatternError("unexpected )")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._ignore_case = False
        self._dot_newline = False
        self._names: set[str] = set()

    @property
    def more(self) -> bool:
        return self._position < len(self._text)

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._position)

    def _accept(self, text: str) -> bool:
        if self._peek(text):
            self._position += len(text)
            return True
        return False

    def _next(self, expected: str) -> str:
        if not self.more:
            raise PatternError(expected)
        character = self._text[self._position]
        self._position += 1
        return character

    def _chars(self, chosen: int) -> Chars:
        return Chars(charsets.either_case(chosen) if self._ignore_case else chosen)

    # -- choice, sequence, repetition --------------------------------------------------------------------------------

    def choice(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise PatternError("nests too deeply")
        parts = [self._sequence(depth)]
        while self._accept("|"):
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.more and not self._peek("|") and not self._peek(")"):
            if self._accept("\\Q"):
                parts += self._quoted()
                continue
            part = self._atom(depth)
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        end = self._text.find("\\E", self._position)
        literal = self._text[self._position : len(self._text) if end < 0 else end]
        self._position = len(self._text) if end < 0 else end + 2
        return [self._chars(charsets.of(character)) for character in literal]

    def _repeated(self, part: Node) -> Node:
        repeated = False
        while True:
            bounds = self._bounds()
            if bounds is None:
                return part
            if repeated:
                raise PatternError("invalid nested repetition operator")
            repeated = True
            self._accept("?")
            part = Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(sign):
                return bounds
        return self._counted() if self._peek("{") else None

    def _counted(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}`, `{2,5}`; anything else in braces is a literal brace."""
        end = self._text.find("}", self._position)
        low, comma, high = self._text[self._position + 1 : max(end, 0)].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None
        self._position = end + 1
        most = int(low) if not comma else int(high) if high else None
        if int(low) > REPEAT_MAX or (most is not None and not int(low) <= most <= REPEAT_MAX):
            raise PatternError("invalid repeat count")
        return int(low), most

    # -- atoms -------------------------------------------------------------------------------------------------------

    def _atom(self, depth: int) -> Node | None:
        character = self._next("")
        match character:
            case "(":
                return self._group(depth)
            case "[":
                return self._chars(self._class())
            case ".":
                return Chars(charsets.EVERYTHING if self._dot_newline else charsets.without(charsets.NEWLINE))
            case "^":
                return At(Place.BEGIN)  # topic names have one line: with and without the flag m
            case "$":
                return At(Place.END)
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise PatternError(f"missing argument to repetition operator: {character}")
        return self._chars(charsets.of(character))

    def _group(self, depth: int) -> Node | None:
        flags = (self._ignore_case, self._dot_newline)
        if self._accept("?"):
            if self._accept("P<") or (self._peek("<") and not self._peek("<=") and not self._peek("<!")):
                self._accept("<")
                self._name()
            elif not self._flags():
                return None  # (?i): for the rest of the enclosing group
        node = self.choice(depth + 1)
        if not self._accept(")"):
            raise PatternError("missing closing )")
        self._ignore_case, self._dot_newline = flags
        return node

    def _name(self) -> None:
        end = self._text.find(">", self._position)
        name = self._text[self._position : max(end, 0)]
        if not name.isidentifier() or not name.isascii() or name in self._names:
            raise PatternError("invalid named capture")
        self._names.add(name)
        self._position = end + 1

    def _flags(self) -> bool:
        """After `(?`: whether a group follows."""
        on = True
        while True:
            flag = self._next("missing closing )")
            if flag == "i":
                self._ignore_case = on
            elif flag == "s":
                self._dot_newline = on
            elif flag == "-" and on:
                on = False
            elif flag in ":)":
                return flag == ":"
            elif flag not in "mU":
                raise PatternError(f"invalid or unsupported Perl syntax: (?{flag}")

    def _escape(self) -> Node:
        character = self._next("trailing backslash at end of expression")
        if character in _PLACES:
            return At(_PLACES[character])
        if character == "C":
            return Chars(charsets.EVERYTHING)
        return self._chars(self._escaped(character))

    def _escaped(self, character: str) -> int:
        """A set after a backslash, in a class or outside."""
        if character in charsets.PERL:
            return charsets.PERL[character]
        if character in "pP":
            return self._unicode(negated=character == "P")
        return charsets.of(self._literal(character))

    def _unicode(self, *, negated: bool) -> int:
        name = self._next("invalid character class range")
        if name == "{":
            end = self._text.find("}", self._position)
            name = self._text[self._position : max(end, 0)]
            self._position = end + 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        chosen = charsets.unicode_class(name)
        if chosen is None:
            raise PatternError(f"invalid character class range: \\p{{{name}}}")
        return charsets.without(chosen) if negated else chosen

    def _literal(self, character: str) -> str:
        """The character that an escape stands for."""
        if character in _PUNCTUATION:
            return character
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self._hexadecimal()
        if character == "0" or (character in _OCTAL and self.more and self._text[self._position] in _OCTAL):
            digits = character
            while len(digits) < 3 and self.more and self._text[self._position] in _OCTAL:
                digits += self._next("")
            return chr(int(digits, 8))
        raise PatternError(f"invalid escape sequence: \\{character}")

    def _hexadecimal(self) -> str:
        if self._accept("{"):
            end = self._text.find("}", self._position)
            digits = self._text[self._position : max(end, 0)]
            self._position = end + 1
        else:
            digits = self._text[self._position : self._position + 2]
            self._position += 2
            if len(digits) < 2:
                digits = ""
        if not digits or not digits.isascii() or not digits.isalnum():
            raise PatternError("invalid escape sequence: \\x")
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise PatternError("invalid escape sequence: \\x") from None

    # -- classes -----------------------------------------------------------------------------------------------------

    def _class(self) -> int:
        negated = self._accept("^")
        chosen = 0
        first = True
        while first or not self._accept("]"):
            first = False
            if not self.more:
                raise PatternError("missing closing ]")
            chosen |= self._posix() if self._peek("[:") else self._range()
        if self._ignore_case:
            chosen = charsets.either_case(chosen)
        return charsets.without(chosen) if negated else chosen

    def _posix(self) -> int:
        end = self._text.find(":]", self._position)
        name = self._text[self._position + 2 : max(end, 0)]
        negated = name.startswith("^")
        chosen = charsets.POSIX.get(name.removeprefix("^"))
        if chosen is None:
            raise PatternError("invalid character class range: [: :]")
        self._position = end + 2
        return charsets.without(chosen) if negated else chosen

    def _range(self) -> int:
        first = self._next("missing closing ]")
        if first == "\\":
            escaped = self._next("trailing backslash at end of expression")
            if escaped in charsets.PERL or escaped in "pP":
                return self._escaped(escaped)
            first = self._literal(escaped)
        if not self._peek("-") or self._peek("-]"):
            return charsets.of(first)
        self._position += 1
        last = self._next("missing closing ]")
        if last == "\\":
            last = self._literal(self._next("trailing backslash at end of expression"))
        if last < first:
            raise PatternError(f"invalid character class range: {first}-{last}")
        return charsets.between(first, last)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
