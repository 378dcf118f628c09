"""Laws of the settings, over generated values."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.config import catalog
from moldau.config.environment import key_of, settings_in
from moldau.config.mistakes import Mistake, SettingsError
from moldau.config.parsing import BadValue, parse, render
from moldau.config.properties import BadSyntax, parse_properties
from moldau.config.settings import Settings
from moldau.config.sources import ConfigFile
from moldau.model.options import Kind, Option

OPTIONS = st.sampled_from([*catalog.BROKER.values(), *catalog.TOPIC.values(), *catalog.GROUP.values()])
TEXT = st.text(max_size=30) | st.integers().map(str) | st.floats().map(str) | st.sampled_from(["true", "a,b", ",", " "])


@settings(max_examples=400)
@given(OPTIONS, TEXT)
def test_what_parses_is_written_so_that_it_parses_to_the_same(option: Option, text: str) -> None:
    try:
        value = parse(option, text)
    except BadValue:
        return
    written = render(option.kind, value)
    assert written is not None
    assert parse(option, written) == value


@settings(max_examples=200)
@given(OPTIONS.filter(lambda option: option.low is not None), st.integers(-(2**63), 2**63 - 1))
def test_bounds_are_kept(option: Option, number: int) -> None:
    assert option.low is not None
    try:
        parse(option, str(number))
    except BadValue:
        return
    inside = option.low <= number and (option.high is None or number <= option.high)
    assert inside or number in option.also


def escaped(text: str, *, key: bool) -> str:
    """As java.util.Properties stores it."""
    out = "".join(
        f"\\{character}" if character in "\\#!=:" or (character == " " and key) else character for character in text
    )
    out = out.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    return "\\" + out if out[:1] == " " else out


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u0085\u2028\u2029"), max_size=12)


@settings(max_examples=300)
@given(st.lists(st.tuples(WORDS.filter(bool), WORDS), max_size=5))
def test_properties_that_java_would_write_are_read_back(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{escaped(key, key=True)}={escaped(value, key=False)}\n" for key, value in pairs)
    assert [(entry.key, entry.value) for entry in parse_properties(text)] == pairs


@settings(max_examples=300)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        lines = [entry.line for entry in parse_properties(text)]
    except BadSyntax as problem:
        lines = [problem.line]
    assert all(line >= 1 for line in lines)
    assert lines == sorted(lines)


@settings(max_examples=200)
@given(st.text(max_size=120), st.sampled_from(["x.toml", "x.properties", "x"]))
def test_any_file_gives_settings_or_mistakes_with_places(text: str, name: str) -> None:
    mistakes: tuple[Mistake, ...] | None = None
    try:
        Settings.from_sources(file=ConfigFile(name, text))
    except SettingsError as failure:
        mistakes = failure.mistakes
    assert mistakes is None or (mistakes and all(mistake.where and mistake.what for mistake in mistakes))


@given(st.sampled_from(sorted(catalog.BROKER)))
def test_every_key_has_a_variable_that_means_it(key: str) -> None:
    name = key.replace("_", "__").replace("-", "___").replace(".", "_").upper()
    assert key_of(name) == key
    if key.startswith("moldau."):
        return
    for prefix in ("KAFKA_", "KAFKA_CFG_"):
        assert [variable.key for variable in settings_in({prefix + name: "v"})] == [key]


@settings(max_examples=100)
@given(st.integers(-1, 2**40), st.integers(-1, 2**31 - 1), st.integers(-1, 2**31 - 1))
def test_retention_is_that_of_the_smallest_unit_set(ms: int, minutes: int, hours: int) -> None:
    keys = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    values, units = (ms, minutes, hours), (1, 60_000, 3_600_000)
    for first in range(3):
        overrides = {keys[index]: str(values[index]) for index in range(first, 3)}
        expected = -1 if values[first] < 0 else values[first] * units[first]
        if expected == 0:
            continue
        assert Settings.from_sources(overrides=overrides).retention_ms() == expected


def test_lists_hold_no_blank_elements() -> None:
    for option in catalog.BROKER.values():
        if option.kind is Kind.LIST and isinstance(option.default, tuple):
            assert "" not in option.default
