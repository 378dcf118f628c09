"""Running names through a program, all its places at once, and remembering the way (a lazily built automaton).

A state is the set of places one may be in before the next character, together with what kind of character came before
(for `\\b`). Each way from a state by a character is worked out once. What that may cost in all is bounded: an
expression made to have very many states is refused when the bound is met, instead of keeping the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.core.group.consumer.pattern import charsets
from moldau.core.group.consumer.pattern.program import Kind, Program, compile_tree
from moldau.core.group.consumer.pattern.syntax import PatternError, Place, parse

VISITS_MAX: Final = 100_000
"""Instructions looked at while working out states, per expression and evaluation: some tens of milliseconds."""


class PatternTooCostly(PatternError):
    """More states than we are willing to work out."""


class _State:
    __slots__ = ("accepts", "after_word", "at_start", "places", "ways")

    def __init__(self, places: frozenset[int], *, at_start: bool, after_word: bool) -> None:
        self.places = places
        self.at_start = at_start
        self.after_word = after_word
        self.ways: dict[str, _State | None] = {}
        """None is the end of all hope."""
        self.accepts: bool | None = None


class TopicPattern:
    """Raises `PatternError` for what is not an expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._program: Program = compile_tree(parse(text))
        self._states: dict[tuple[frozenset[int], bool, bool], _State] = {}
        self._start = self._state(frozenset((self._program.start,)), at_start=True, after_word=False)
        self._visits = 0

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those that match as a whole, in order. Raises `PatternTooCostly`."""
        self._visits = 0
        return [name for name in names if self.matches(name)]

    def matches(self, name: str) -> bool:
        state = self._start
        for character in name:
            try:
                after = state.ways[character]
            except KeyError:
                after = self._step(state, character)
            if after is None:
                return False
            state = after
        if state.accepts is None:
            state.accepts = any(
                self._program.instructions[place].kind is Kind.MATCH for place in self._reach(state, None)
            )
        return state.accepts

    def _state(self, places: frozenset[int], *, at_start: bool, after_word: bool) -> _State:
        key = (places, at_start, after_word)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(places, at_start=at_start, after_word=after_word)
        return state

    def _step(self, state: _State, character: str) -> _State | None:
        bit = charsets.of(character)
        instructions = self._program.instructions
        places = frozenset(
            instructions[place].next
            for place in self._reach(state, bit)
            if instructions[place].kind is Kind.CHARS and instructions[place].chosen & bit
        )
        after = None
        if places:
            after = self._state(places, at_start=False, after_word=bool(bit & charsets.WORD))
        state.ways[character] = after
        return after

    def _reach(self, state: _State, bit: int | None) -> set[int]:
        """All places to be in without reading on; `bit` is the character that follows, None at the end."""
        edge = state.after_word != bool(bit is not None and bit & charsets.WORD)
        right = {
            Place.BEGIN: state.at_start,
            Place.END: bit is None,
            Place.WORD_EDGE: edge,
            Place.NO_WORD_EDGE: not edge,
        }
        instructions = self._program.instructions
        reached = set(state.places)
        waiting = list(state.places)
        while waiting:
            instruction = instructions[waiting.pop()]
            self._visits += 1
            nexts: tuple[int, ...] = ()
            if instruction.kind is Kind.SPLIT:
                nexts = (instruction.next, instruction.other)
            elif instruction.kind is Kind.AT and right[instruction.place]:
                nexts = (instruction.next,)
            for place in nexts:
                if place not in reached:
                    reached.add(place)
                    waiting.append(place)
        if self._visits > VISITS_MAX:
            raise PatternTooCostly("expression is too costly to evaluate")
        return reached
