from __future__ import annotations

import re

import pytest

from moldau.core.group.consumer.pattern import PatternError, PatternTooCostly, TopicPattern

NAMES = [
    "",
    "a",
    "b",
    "ab",
    "abb",
    "foo",
    "foobar",
    "xfoo",
    "orders-12",
    "orders-",
    "ABC",
    "aBc",
    "a.b",
    "axb",
    "a-b",
    "_x",
]


@pytest.mark.parametrize(
    "pattern",
    [
        "^foo.*",
        "foo$",
        "a|b",
        "(a|b)*abb",
        "orders-\\d+",
        "orders-[0-9]{2}",
        "(?i)abc",
        "a(?i)bC",
        "(?i:a)Bc",
        "[^a]b?",
        "[a-c]+",
        "a{1,2}b{0,}",
        "a??b",
        "\\bfoo\\b",
        "x?foo\\B.*",
        "\\w+\\.\\w+",
        "[\\w.]+",
        "a.b",
        "a\\.b",
        "a[.]b",
        "a[-.]b",
        "()",
        "(|a)b*",
        "(?P<stem>foo)(?:bar)?",
        "\\x61.*",
        "\\A.*",
        "(a*)*b*",
        "[]a]",
        "a{",
    ],
)
def test_patterns_match_whole_names_as_everybody_expects(pattern: str) -> None:
    # Python knows no flags in the middle, and RE2's other spellings; where both know one, both agree.
    spelled = {"a(?i)bC": "a(?i:bC)"}.get(pattern, pattern)
    ours = TopicPattern(pattern)
    assert [n for n in NAMES if ours.matches(n)] == [n for n in NAMES if re.fullmatch(spelled, n)]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[[:alpha:]]+", ["a", "b", "ab", "abb", "foo", "foobar", "xfoo", "ABC", "aBc", "axb"]),
        ("[[:^alpha:]]x", ["_x"]),
        ("\\p{Lu}+", ["ABC"]),
        ("\\pL\\PL\\pL", ["a.b", "a-b"]),
        ("\\p{^Greek}", ["a", "b"]),
        ("\\Qa.b\\E", ["a.b"]),
        ("\\Qa.b", ["a.b"]),
        ("(?<stem>foo)", ["foo"]),
        ("a\\z", ["a"]),
        ("\\141", ["a"]),
        ("\\x{61}b", ["ab"]),
        ("ä", []),
        ("", [""]),
        ("a{,2}", []),
    ],
)
def test_spellings_of_re2(pattern: str, matching: list[str]) -> None:
    assert TopicPattern(pattern).matching(NAMES) == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)",
        "*a",
        "a**",
        "a+*",
        "[a",
        "[z-a]",
        "a{1001}",
        "a{2,1}",
        "((a{100}){100}){100}",
        "\\",
        "\\1",
        "(a)\\1",
        "\\k<n>",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?>a)",
        "(?P<n>a)(?P<n>b)",
        "(?P<1>a)",
        "(?z)a",
        "\\p{Nonsense}",
        "\\p",
        "[[:nonsense:]]",
        "\\y",
        "\\x{110000}",
        "\\xg1",
        "x" * 1_001,
        "(" * 200 + ")" * 200,
    ],
)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        TopicPattern(pattern)


def test_patterns_that_make_others_think_for_years_are_no_harder_than_any() -> None:
    name = "a" * 200 + "!"
    for pattern in ("(a+)+", "(a|a)*", "(a|aa)+", "(.*)*x", "(a?){60}a{60}"):
        assert not TopicPattern(pattern).matches(name)


def test_a_pattern_with_too_many_states_is_given_up_on() -> None:
    names = ["".join("ab"[(number >> (place % 11)) * place % 3 % 2] for place in range(200)) for number in range(500)]
    with pytest.raises(PatternTooCostly):
        TopicPattern("(.*a.{250})*").matching(names)
