"""Spark's DDL for types (`a INT, b ARRAY<STRING>`) read without a JVM: planning processes and executors have none.

Understands what `StructType.toDDL` and people write: every type that JSON can be decoded into, `NOT NULL`, `COMMENT`,
back-quoted names, `name: type` and `name type`. Spark's JSON form of a type is taken too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>\w+)|(?P<mark>[<>(),:]))""",
)
_UNREADABLE_NAME: Final = re.compile(r'["\\\x00-\x1f]')
_SIMPLE: Final = {
    "boolean": "BooleanType",
    "tinyint": "ByteType",
    "byte": "ByteType",
    "smallint": "ShortType",
    "short": "ShortType",
    "int": "IntegerType",
    "integer": "IntegerType",
    "bigint": "LongType",
    "long": "LongType",
    "float": "FloatType",
    "real": "FloatType",
    "double": "DoubleType",
    "string": "StringType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ltz": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
}
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_TEXTS_WITH_LENGTH: Final = frozenset({"char", "character", "varchar"})
_DECIMAL_PRECISION: Final = 10


def parse_ddl(text: str) -> DataType:
    """A type (`struct<a: int>`, `array<string>`) or the columns of a struct (`a INT, b STRING`)."""
    if text.lstrip().startswith("{"):
        return _from_json(text)
    parser = _Parser(text)
    if parser.is_bare_type():
        return parser.whole(parser.type_())
    return parser.whole(parser.columns(closing=None))


def check_decodable(kind: DataType) -> None:
    """ValueError for types that JSON is never decoded into: said when a table is loaded, not when a task fails."""
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        for field in kind.fields:
            if _UNREADABLE_NAME.search(field.name):
                raise ValueError(
                    f"JSON cannot be decoded into a field named '{field.name}': quotes, backslashes and control "
                    "characters in names are not read"
                )
            check_decodable(field.dataType)
    elif isinstance(kind, types.ArrayType):
        check_decodable(kind.elementType)
    elif isinstance(kind, types.MapType):
        if not isinstance(kind.keyType, types.StringType):
            raise ValueError(f"JSON cannot be decoded into {kind.simpleString()}: its keys are strings")
        check_decodable(kind.valueType)
    elif type(kind).__name__ not in {*_SIMPLE.values(), "DecimalType"}:
        raise ValueError(f"JSON cannot be decoded into {kind.simpleString()}")


def _from_json(text: str) -> DataType:
    from pyspark.sql.types import _parse_datatype_json_string

    try:
        return _parse_datatype_json_string(text)
    except Exception as failure:
        raise ValueError(f"not Spark's JSON of a type: {failure}") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenize(text)
        self._at = 0

    def is_bare_type(self) -> bool:
        """A type name that is not followed by another type (which would make it a column's name)."""
        if not self._tokens or self._tokens[0][0] != "word":
            return False
        name = self._tokens[0][1].lower()
        if len(self._tokens) == 1:
            return name in _SIMPLE or name in _DECIMALS
        return self._tokens[1][1] in "<(" and (
            name in ("array", "map", "struct") or name in _DECIMALS or name in _TEXTS_WITH_LENGTH
        )

    def whole(self, found: DataType) -> DataType:
        if self._at < len(self._tokens):
            raise self._mistake(f"'{self._tokens[self._at][1]}' is unexpected")
        return found

    def columns(self, closing: str | None) -> StructType:
        from pyspark.sql.types import StructType

        fields: list[StructField] = []
        while self._peek() != closing:
            fields.append(self._column())
            if self._peek() != ",":
                break
            self._take()
        if closing is not None:
            self._expect(closing)
        if not fields and closing is None:
            raise self._mistake("no column given")
        return StructType(fields)

    def type_(self) -> DataType:
        from pyspark.sql import types

        word = self._name("a type").lower()
        if word in _SIMPLE:
            kind: DataType = getattr(types, _SIMPLE[word])()
            return kind
        if word in _DECIMALS:
            numbers = self._numbers(default=(_DECIMAL_PRECISION, 0))
            return types.DecimalType(numbers[0], numbers[1] if len(numbers) > 1 else 0)
        if word in _TEXTS_WITH_LENGTH:
            self._numbers(default=())
            return types.StringType()
        if word in ("array", "map", "struct"):
            return self._nested(word)
        raise self._mistake(f"'{word}' is not a type that can be decoded")

    def _nested(self, word: str) -> DataType:
        from pyspark.sql.types import ArrayType, MapType

        self._expect("<")
        if word == "struct":
            return self.columns(closing=">")
        first = self.type_()
        if word == "array":
            self._expect(">")
            return ArrayType(first)
        self._expect(",")
        second = self.type_()
        self._expect(">")
        return MapType(first, second)

    def _column(self) -> StructField:
        from pyspark.sql.types import StructField

        name = self._name("a column's name")
        if self._peek() == ":":
            self._take()
        kind = self.type_()
        nullable = True
        while (word := (self._peek() or "").lower()) in ("not", "comment"):
            self._take()
            if word == "not":
                if self._name("NULL").lower() != "null":
                    raise self._mistake("NOT must be followed by NULL")
                nullable = False
            else:
                self._take()
        return StructField(name, kind, nullable)

    def _numbers(self, default: tuple[int, ...]) -> tuple[int, ...]:
        if self._peek() != "(":
            return default
        self._take()
        numbers = []
        while True:
            word = self._name("a number")
            if not word.isdigit():
                raise self._mistake(f"'{word}' is not a number")
            numbers.append(int(word))
            if self._peek() != ",":
                break
            self._take()
        self._expect(")")
        return tuple(numbers)

    def _peek(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._mistake("it ends too early")
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _name(self, wanted: str) -> str:
        kind, text = self._take()
        if kind == "quoted":
            return text[1:-1].replace("``", "`")
        if kind != "word":
            raise self._mistake(f"{wanted} is expected where '{text}' stands")
        return text

    def _expect(self, mark: str) -> None:
        kind, text = self._take()
        if kind != "mark" or text != mark:
            raise self._mistake(f"'{mark}' is expected where '{text}' stands")

    def _mistake(self, why: str) -> ValueError:
        return ValueError(f"cannot read the schema '{self._text}': {why}")


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"cannot read the schema '{text}': '{text[position:].strip()[0]}' is unexpected")
        kind = found.lastgroup or ""
        tokens.append((kind, found.group(kind)))
        position = found.end()
    return tokens
