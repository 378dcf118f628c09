"""The tree as a program for a machine that is in many places at once (Thompson's construction).

CHARS  go on if the character is in the set       AT     go on if the place is right
SPLIT  go on in two places                        MATCH  the name matches, if this was its end
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from moldau.core.group.consumer.pattern.syntax import At, Chars, Choice, Node, PatternError, Place, Repeat, Sequence

INSTRUCTIONS_MAX: Final = 4_000


class Kind(enum.IntEnum):
    CHARS = 0
    SPLIT = 1
    AT = 2
    MATCH = 3


class Instruction(NamedTuple):
    kind: Kind
    next: int = -1
    other: int = -1
    chosen: int = 0
    place: Place = Place.BEGIN


class Program(NamedTuple):
    instructions: list[Instruction]
    start: int


def compile_tree(node: Node) -> Program:
    instructions = [Instruction(Kind.MATCH)]
    start = _emit(node, 0, instructions)
    return Program(instructions, start)


def _add(instruction: Instruction, instructions: list[Instruction]) -> int:
    if len(instructions) >= INSTRUCTIONS_MAX:
        raise PatternError("expression is too large")
    instructions.append(instruction)
    return len(instructions) - 1


def _emit(node: Node, then: int, instructions: list[Instruction]) -> int:
    """Write the node so that it goes on at `then`; where it starts. Written back to front: what follows is there."""
    match node:
        case Chars(chosen):
            return _add(Instruction(Kind.CHARS, then, chosen=chosen), instructions)
        case At(place):
            return _add(Instruction(Kind.AT, then, place=place), instructions)
        case Sequence(parts):
            for part in reversed(parts):
                then = _emit(part, then, instructions)
            return then
        case Choice(parts):
            start = _emit(parts[-1], then, instructions)
            for part in reversed(parts[:-1]):
                start = _add(Instruction(Kind.SPLIT, _emit(part, then, instructions), start), instructions)
            return start
        case Repeat(part, least, most):
            return _emit_repeat(part, least, most, then, instructions)


def _emit_repeat(part: Node, least: int, most: int | None, then: int, instructions: list[Instruction]) -> int:
    start = then
    if most is None:
        start = _add(Instruction(Kind.SPLIT, then, then), instructions)
        instructions[start] = Instruction(Kind.SPLIT, _emit(part, start, instructions), then)
    else:
        for _ in range(most - least):
            start = _add(Instruction(Kind.SPLIT, _emit(part, start, instructions), then), instructions)
    for _ in range(least):
        start = _emit(part, start, instructions)
    return start
