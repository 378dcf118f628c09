"""What every generated message class has in common: comparison and a readable form. Nothing here is on the hot path."""

from __future__ import annotations

from typing import ClassVar

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Message:
    """A struct of the protocol. Subclasses list their fields in `FIELDS`, in the order of Kafka's schema.

    Only the busiest message modules are compiled, so a compiled base must accept interpreted subclasses.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in field_names(self))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        raise TypeError(f"unhashable message: {type(self).__name__}")

    def __repr__(self) -> str:
        inside = ", ".join([f"{name}={getattr(self, name)!r}" for name in field_names(self)])
        return f"{type(self).__name__}({inside})"


def field_names(message: Message) -> tuple[str, ...]:
    """Names of the fields of a message, in schema order."""
    names: tuple[str, ...] = getattr(type(message), "FIELDS")  # noqa: B009 - compiled, `message.FIELDS` is the base's
    return names
