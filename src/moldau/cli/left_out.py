"""Verbs that take several names stop at the first that fails: the failure says which were left out."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.cli.errors import PlainError


class LeftOut:
    """Use as `with LeftOut("not created", names) as left`, and tell it which name is begun and which is done."""

    def __init__(self, label: str, names: Iterable[str]) -> None:
        self._label = label
        self._left = dict.fromkeys(names)
        self._at: str | None = None

    def begin(self, name: str) -> None:
        self._at = name

    def done(self, name: str) -> None:
        self._left.pop(name, None)

    def __enter__(self) -> LeftOut:
        return self

    def __exit__(self, _: object, failure: object, *__: object) -> None:
        if isinstance(failure, PlainError) and self._at is not None:  # else nothing was tried: that is clear
            failure.add(self._label, [name for name in self._left if name != self._at])
