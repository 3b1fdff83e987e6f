"""Binding a tree to times makes numbers of durations and of the times of the query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import ParseError, PromDurationError
from lakerunner_query.promql.lang.ast import Expr, Matrix, Number, Selector, Subquery, walk
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import to_text
from tests.support.query.promql.promql_texts import VECTORS

START, END, STEP = 1_000_000, 1_600_000, 15_000


def bound(text: str, start_ms: int = START, end_ms: int = END, step_ms: int = STEP) -> Expr:
    return bind(parse(text), start_ms, end_ms, step_ms)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a[step()]", "a[15s]"),
        ("a[range() / 2 + 1]", "a[301s]"),
        ("a[max_of(step(), 10s)]", "a[15s]"),
        ("a[min_of(step(), 10s)]", "a[10s]"),
        ("a[-(5 - 3 ^ 2 % 7 * 4)]", "a[3s]"),
        ("a[2 ^ 3 ^ 2]", "a[512s]"),
        ("a[0 + 1.2345]", "a[1234ms]"),
        ("a offset -step() @ start()", "a offset -15s @ 1000"),
        ("a offset (step() - 60)", "a offset -45s"),
        ("a[1h:step() * 4] @ end() offset (1m + 1m)", "a[1h:1m] @ 1600 offset 2m"),
        ("a[1h:]", "a[1h:]"),
        ("a[(5m)] offset -(90)", "a[5m] offset -1m30s"),
        ("rate(a[range()] @ start())", "rate(a[10m] @ 1000)"),
        ("vector(start()) + end() * range() - step()", "vector(1000) + 1600 * 600 - 15"),
        ("topk(step(), (-a))", "topk(15, (-a))"),
    ],
)
def test_times_of_the_query(text: str, same: str) -> None:
    assert bound(text) == bound(same)
    assert to_text(bound(text)) == to_text(parse(same))


def test_an_answer_at_one_time_has_no_range_and_no_step() -> None:
    assert bound("vector(step() + range())", START, START, 0) == parse("vector(0 + 0)")
    assert bound("step()", START, START, STEP) == Number(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a[step() - 15]", "2:13: duration must be greater than 0"),
        ("rate(a[5m:(1m - step() * 4)])", "11:26: duration must be greater than 0"),
        ("a[1 / (step() - 15)]", "2:18: division by zero"),
        ("a[1 % (15 - step())]", "2:18: modulo by zero"),
        ("a[(0)]", "3:4: duration must be greater than 0"),
        ("a[(0 - 8) ^ 0.5]", "3:15: duration is NaN or infinite"),
        ("a[10 ^ 999]", "2:10: duration is NaN or infinite"),
        ("a offset (step() ^ 9)", "10:20: duration is out of range"),
    ],
)
def test_durations_that_are_none(text: str, message: str) -> None:
    tree = parse(text)
    with pytest.raises(PromDurationError) as error:
        bind(tree, START, END, STEP)
    assert str(error.value) == message
    assert isinstance(error.value, ParseError)


@settings(max_examples=60, deadline=None)
@given(VECTORS, st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10**5))
def test_nothing_is_left_to_be_computed(text: str, start_ms: int, length_ms: int, step_ms: int) -> None:
    try:
        tree = bind(parse(text), start_ms, start_ms + length_ms, step_ms)
    except PromDurationError:
        return
    for one in walk(tree):
        if isinstance(one, Selector | Subquery):
            assert isinstance(one.shift.offset, int)
            assert isinstance(one.shift.at, int | None)
        if isinstance(one, Matrix | Subquery):
            assert isinstance(one.range, int)
    assert bind(tree, 7, 8, 9) == tree
