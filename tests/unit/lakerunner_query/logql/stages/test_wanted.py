"""Parsing less gives the same: of labels that are asked for, nothing depends on what else was parsed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.pipeline import Demand, labels_before
from tests.support.query.logql.frames import applied, frame_of, labels_of

STAGES = st.sampled_from(
    [
        "json",
        "logfmt",
        "logfmt --strict",
        'json a="b", c="o.p"',
        'logfmt a="b"',
        "unpack",
        "regexp `(?P<a>.)(?P<b>.)`",
        "pattern `<a>=<b> <c>`",
        "drop a",
        'drop b="2"',
        "keep a, b",
        'keep c=~".+"',
        'a="1"',
        "b > 1",
        'c!=""',
        'a="1" or b > 1',
        'label_format a="{{.b}}"',
        "label_format d=a",
        "line_format `{{.c}}`",
        '__error__=""',
        "drop __error__",
        'b = ip("1.2.3.4")',
        "label_format s=a",
    ]
)
LINES = (
    "a=1 b=2 c=3",
    '{"a":"1","b":2,"c":"a=5 b=6","s":"p","s_extracted":"q"}',
    '{"a":{"b":3},"o":{"p":4},"m":5}',
    "",
    "a=1 a==2",
    '{"_entry":"a=7","b":"8","a":"9"}',
    "b=1.2.3.4 a=",
    '{"a":1,',
    "broken",
    "s=1 m=2 m_extracted=3",
)
NAMES = st.frozensets(
    st.sampled_from(["a", "b", "c", "d", "s", "m", "s_extracted", "m_extracted", "o_p", "__error__"])
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STAGES, min_size=1, max_size=4), NAMES)
def test_less_demand_gives_the_same_labels(stages: list[str], names: frozenset[str]) -> None:
    query = " ".join(f"| {stage}" for stage in stages)
    frame = frame_of(LINES, {"s": "stream"}, {"m": "meta"})
    full, less = applied(frame, query), applied(frame, query, Demand(names))
    shown = {row: {k: v for k, v in found.items() if k in names} for row, found in labels_of(full).items()}
    assert {r: {k: v for k, v in f.items() if k in names} for r, f in labels_of(less).items()} == shown
    assert full.line.equals(less.line)


@pytest.mark.parametrize(
    ("query", "before"),
    [
        ("| json | status >= 500", {"app", "status"}),
        ("| json | drop x", {"app"}),
        ("| logfmt | label_format app=b", {"app", "b"}),
        ('| line_format "{{.x}}"', {"app", "x"}),
    ],
)
def test_stages_want_what_they_look_at(query: str, before: set[str]) -> None:
    stages = parse(f'{{app="a"}} {query}').stages
    assert labels_before(stages, Demand(frozenset({"app"})))[0] == before


def test_keep_limits_what_is_wanted_of_everything() -> None:
    stages = parse('{app="a"} | json | keep b').stages
    wanted = labels_before(stages, Demand(None))[1]
    assert wanted == {"b", "__error__", "__error_details__", "__preserve_error__"}


def test_a_parser_writes_down_nothing_that_nobody_reads() -> None:
    found = applied(frame_of(['{"a":1,"b":2,"c":3}']), "| json | b > 1", Demand(frozenset({"a"})))
    assert set(found.labels) == {"a", "b"}
