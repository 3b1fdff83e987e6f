"""Rewrite rules as before/after pairs, and that none changes what a query means."""

from __future__ import annotations

import pytest

from lakerunner_query.coordinator.explain import explain_lines
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.conditions import matcher_text
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.plan.logql import LogLinesRequest, Nothing, TakeRows, build
from lakerunner_query.plan.optimise import RULES, optimise
from resources.lake.terms import alternatives

ASKED = LogLinesRequest("acme", 0, 100, 10)


def planned(text: str) -> TakeRows:
    plan = optimise(build(parse(text), ASKED)).plan
    assert isinstance(plan, TakeRows)
    return plan


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{a=~"web"}', '{a="web"}'),
        ('{a="x", b!~"web"}', '{a="x", b!="web"}'),
        ('{a=~".+"}', '{a!=""}'),
        ('{a="x", b=~".*"}', '{a="x"}'),
        ('{a="x", b!~".+"}', '{a="x", b=""}'),
        ('{a="x", a="x"}', '{a="x"}'),
        ('{a="x"} |~ "timeout"', '{a="x"} |= "timeout"'),
        ('{a="x"} !~ "a" or "b"', '{a="x"} != "a" or "b"'),
        ('{a="x"} |~ "a.b" or "c"',) * 2,
        ('{a="x"} |= "" |~ ".*" |= "b"', '{a="x"} |= "b"'),
        ('{a="x"} |= "b" |= "b" |= "c" or "c"', '{a="x"} |= "b" |= "c"'),
        ('{a=~"x.y"} |~ "^b$"',) * 2,
        ('{a="x"} | json | b="y" |= "c"', '{a="x"} |= "c" | json | b="y"'),
        ('{a="x"} |= "d" | json |= "c" |= "d"', '{a="x"} |= "d" |= "c" | json'),
        ('{a="x"} | line_format "{{.b}}" |= "c"',) * 2,  # another line stands there
        ('{a="x"} | unpack |= "c" | json |= "d"', '{a="x"} | unpack |= "c" |= "d" | json'),
        ('{a="x"} |= "c" | decolorize |= "c"',) * 2,
    ],
)
def test_rewrites(before: str, after: str) -> None:
    plan = planned(before)
    assert print_query(LogQuery(plan.source.source.matchers, plan.source.stages)) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{a="x", a="y"}', "label a cannot satisfy both of two matchers"),
        ('{a="x", a!="x"}', "label a cannot satisfy both of two matchers"),
        ('{a="x"} != ""', "!= of a text that is in every line"),
        ('{a="x"} !~ "b" or ".*"', "!~ of a text that is in every line"),
    ],
)
def test_contradictions_look_for_nothing(text: str, reason: str) -> None:
    assert optimise(build(parse(text), ASKED)).plan == Nothing(reason)


def test_empty_range_and_zero_limit() -> None:
    query = parse('{a="x"}')
    assert isinstance(optimise(build(query, LogLinesRequest("acme", 5, 5, 1))).plan, Nothing)
    assert isinstance(optimise(build(query, LogLinesRequest("acme", 1, 5, 0))).plan, Nothing)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ('{a="x"}', (("a", ["x"]),)),
        ('{a=~"x|y", b!="z"}', (("a", ["x", "y"]),)),
        ('{a=~"(?:x|y)"}', (("a", ["x", "y"]),)),
        ('{a="x", b=""}', (("a", ["x"]),)),
        ('{a="x", b=~"y|"}', (("a", ["x"]),)),  # b may be absent
        ('{a=~"x.*|y"}', ()),
        ('{a=~"(?i)x"}', ()),
    ],
)
def test_terms_come_only_from_demanded_values(text: str, terms: tuple[tuple[str, list[str]], ...]) -> None:
    expected = tuple(alternatives(name, values) for name, values in terms)
    assert planned(text).source.source.terms == expected


def test_terms_are_few_however_many_the_matchers() -> None:
    many = "{" + ", ".join(f'a{i}="x"' for i in range(100)) + "}"
    assert len(planned(many).source.source.terms) == 16
    assert planned('{a=~"' + "|".join(map(str, range(1001))) + '"}').source.source.terms == ()


def test_rules_are_named_once_and_explained() -> None:
    names = [name for name, _ in RULES]
    assert len(names) == len(set(names))
    text = explain_lines(optimise(build(parse('{a=~"web"} |= "x"'), ASKED)))
    assert text.splitlines() == [
        "TakeRows last 10",
        '  RunStages |= "x"',
        '      SQL: |= "x"',
        '    ReadStreams {a="web"} dataset=logs range=[0, 100) terms=1',
        "rules: literal-label-regex, matcher-terms",
        "refused: demanded-words: |= finds parts of words, blooms hold whole ones",
    ]


@pytest.mark.parametrize(
    ("text", "narrowing"),
    [
        ('{a="x"} | b="y"', ['b="y"']),
        ('{a="x"} |= "c" | b=~"y|z" and d!="e"', ['b=~"y|z"', 'd!="e"']),
        ('{a="x"} | b="y" or d="e"', []),
        ('{a="x"} | json | b="y"', []),  # the line may say what b is
        ('{a="x"} | json c="d" | b="y" | c="e"', ['b="y"']),
        ('{a="x"} | label_format b="{{.c}}" | b="y"', []),
        ('{a="x"} | label_format c=b | b="y"', []),  # renamed: it is gone
        ('{a="x"} | keep c | b="y"', []),
        ('{a="x"} | keep b, c | b="y"', ['b="y"']),
        ('{a="x"} | drop b | b="y"', []),
        ('{a="x"} | drop c | b="y"', ['b="y"']),
        ('{a="x"} | __error__=""', []),
    ],
)
def test_streams_are_narrowed_by_filters_on_stored_labels(text: str, narrowing: list[str]) -> None:
    assert [matcher_text(one) for one in planned(text).source.source.narrowing] == narrowing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{a="x"} |= "id=7f3a "', [("", ("7f3a",))]),
        ('{a="x"} |= "7f3a"', []),  # may be part of a longer word
        ('{a="x"} |= "x y z" or "u v w"', [("", ("y",), ("v",))]),
        ('{a="x"} |= "x y z" or "u"', []),
        ('{a="x"} != "x y z"', []),
        ('{a="x"} |~ "[ =]7f3a$"', [("", ("7f3a",))]),
        ('{a="x"} |~ "(?i)x y z"', []),
        ('{a="x"} |> "<_> y <_> u v w"', [("", ("y", "u", "v"))]),
        ('{a="x"} | json |= " y "', [("", ("y",))]),
        ('{a="x"} | line_format "{{.b}}" |= " y "', []),
        ('{a="x"} | trace_id="00ff"', [("trace_id", ("00ff",))]),
        ('{a="x"} | user=~"ann|bob b"', [("user", ("ann",), ("bob", "b"))]),
        ('{a="x"} | status="200"', []),  # numbers are not in it
        ('{a="x"} | flag="true" | ratio="1e-7" | n="NaN"', []),
        ('{a="x"} | detected_level="error"', []),  # levels are not in it
        ('{a="x"} | json | user="ann"', []),
    ],
)
def test_words_that_segments_must_hold(text: str, words: list[tuple[object, ...]]) -> None:
    found = planned(text).source.source.words
    assert [(one.label, *one.alternatives) for one in found] == words


def test_what_prunes_nothing_is_told() -> None:
    told = optimise(build(parse('{a="x"} |= "y" | detected_level="error" | status="200"'), ASKED)).refused
    assert told == (
        "demanded-words: |= finds parts of words, blooms hold whole ones",
        "demanded-words: blooms do not hold what detected_level is compared with",
        "demanded-words: blooms do not hold what status is compared with",
    )
