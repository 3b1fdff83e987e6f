"""Selectors, subqueries, names that go, and answers that are put together of runs of steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import EvaluationError, LimitExceededError
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import label_set, quote
from lakerunner_query.promql.context import Annotation, Annotations, MonotonicityFix, Options
from lakerunner_query.promql.evaluate import evaluate
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.vectors.vector import Scalar, Series, Steps
from tests.support.query.promql.evaluating import STALE, Written, ask, table

MINUTES = Written({"x{}": {60 * i: float(i) for i in range(30)}, "y{}": {0: 1.0, 60: STALE, 180: 2.0}})


def test_an_instant_selector_looks_back_five_minutes_and_not_a_sample_longer() -> None:
    source = Written({"x{}": {0: 7.0}})
    assert table(ask(source, "x", start=299)) == {"x{}": [7.0]}
    assert table(ask(source, "x", start=300)) == {}


def test_a_stale_marker_ends_a_series() -> None:
    assert table(ask(MINUTES, "y", count=5)) == {"y{}": [1.0, None, None, 2.0, 2.0]}
    assert table(ask(MINUTES, "count_over_time(y[4m])", start=180)) == {"{}": [2.0]}


def test_at_and_offset() -> None:
    assert table(ask(MINUTES, "x @ 120", start=600, count=2)) == {"x{}": [2.0, 2.0]}
    assert table(ask(MINUTES, "x @ 120 offset 1m", start=600, count=2)) == {"x{}": [1.0, 1.0]}
    assert table(ask(MINUTES, "x offset 2m", start=600, count=2)) == {"x{}": [8.0, 9.0]}
    assert table(ask(MINUTES, "x offset -2m", start=600, count=2)) == {"x{}": [12.0, 13.0]}
    assert table(ask(MINUTES, "x @ end() - x @ start()", start=600, count=4)) == {"{}": [3.0] * 4}


def test_what_does_not_depend_on_the_step_is_read_once() -> None:
    source = Written({"x{}": {60: 1.0}})
    assert table(ask(source, "sum(x @ 60) + sum(x @ 60)", start=600, count=3)) == {"{}": [2.0, 2.0, 2.0]}
    assert source.asked == 1


def test_subqueries_keep_to_multiples_of_their_step() -> None:
    answer = ask(MINUTES, "x[5m:2m]", start=601)
    assert isinstance(answer.value, Series)
    assert answer.value.time_ms.tolist() == [360_000, 480_000, 600_000]
    assert answer.value.value.tolist() == [6.0, 8.0, 10.0]
    assert table(ask(MINUTES, "sum_over_time(x[4m:2m] offset 1m)", start=600, count=2)) == {
        "{}": [14.0, 18.0]
    }
    assert table(ask(MINUTES, "sum_over_time(x[4m:2m] @ 600)", start=6000, count=2)) == {"{}": [18.0, 18.0]}


def test_a_range_vector_is_an_answer_too() -> None:
    answer = ask(MINUTES, "y[5m]", start=180)
    assert isinstance(answer.value, Series)
    assert answer.value.time_ms.tolist() == [0, 180_000]
    assert isinstance(ask(MINUTES, "z[5m]", start=180).value, Series)


def test_names_go_last_and_may_make_series_one() -> None:
    source = Written({"a{}": {0: 1.0}, "b{}": {0: 3.0, 600: 4.0}})
    assert table(ask(source, "-a or -b", step=600, count=2)) == {"{}": [-1.0, -4.0]}
    with pytest.raises(EvaluationError, match="vector cannot contain metrics with the same labelset"):
        ask(source, '-{__name__=~"a|b"}')
    assert table(ask(source, 'sum by (__name__) (-{__name__="a"})')) == {"{}": [-1.0]}
    assert table(ask(source, 'count(-{__name__=~"a|b"})')) == {"{}": [2.0]}


def test_scalars_by_step() -> None:
    answer = ask(MINUTES, "1 + 2 > bool 2", count=3)
    assert isinstance(answer.value, Scalar)
    assert answer.value.values.tolist() == [1.0, 1.0, 1.0]


def test_too_much_at_once_is_refused() -> None:
    with pytest.raises(LimitExceededError, match="select fewer series"):
        evaluate(parse("x[30m]"), Steps(1_800_000, 0, 1), MINUTES, Options(max_cells=10))


@pytest.mark.parametrize(
    "text", ["max_over_time(x[5y:1s])", "x", "rate(x[5m])", "x smoothed", "max_over_time(vector(1)[5y:1s])"]
)
def test_too_many_cells_are_refused_before_they_are_made(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = np.full

    def full(shape: int | tuple[int, ...], *rest: object) -> object:
        assert np.prod(shape) < 1_000_000
        return make(shape, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(np, "full", full)
    steps = Steps(157_680_000_000, 1, 1) if "[5y:" in text else Steps(0, 1, 60_000_000)
    with pytest.raises(LimitExceededError):
        evaluate(parse(text), steps, MINUTES, Options())


QUERIES = [
    "a",
    "-a or b",
    "a + on (i) group_left b",
    "sum by (i) (a) > 2",
    "topk(1, a)",
    "sum_over_time(a[3m:90s])",
    "a @ 120 * b",
    'count_values("v", a)',
    "a unless on (i) (b > 1)",
    "quantile(0.3, a) + 1",
]


@settings(max_examples=60, deadline=None)
@given(
    query=st.sampled_from(QUERIES),
    parts=st.integers(2, 5),
    values=st.lists(st.lists(st.integers(0, 4), min_size=8, max_size=8), min_size=3, max_size=3),
)
def test_runs_of_steps_put_together_are_the_whole(query: str, parts: int, values: list[list[int]]) -> None:
    """Zeros are left out, so that series come and go."""
    written = [{60 * t: float(value) for t, value in enumerate(row) if value} for row in values]
    source = Written({"a{i=1}": written[0], "a{i=2}": written[1], "b{i=1}": written[2]})
    whole = table(ask(source, query, count=12, start=30))
    assert table(ask(source, query, count=12, start=30, parts=parts)) == whole
    for at in (0, 5, 11):
        alone = table(ask(source, query, start=30 + 60 * at))
        assert alone == {labels: [cells[at]] for labels, cells in whole.items() if cells[at] is not None}


def test_annotations_are_told_once_and_the_last_place_stays() -> None:
    notes = Annotations()
    notes.warn("odd", Span(0, 1))
    notes.inform("odd", Span(0, 1))
    notes.warn("odd", Span(4, 5))
    assert [note.render("a\nbcd") for note in notes.all()] == [
        "PromQL warning: odd (2:3)",
        "PromQL info: odd (1:1)",
    ]


def test_facts_of_forced_buckets_are_joined() -> None:
    notes = Annotations()
    for lowest, highest, difference, at in ((5.0, 50.0, 5.5, 60_000), (2.5, 10.0, 0.25, -1_500)):
        forced = MonotonicityFix(lowest, highest, difference, at, at)
        notes.add(Annotation("info", "raised", Span(0, 0), forced))
    assert [note.render("") for note in notes.all()] == [
        "PromQL info: raised, from buckets 2.5 to 50, with a max diff of 5.5, over 2 samples "
        "from 1969-12-31T23:59:59Z to 1970-01-01T00:01:00Z (1:1)"
    ]


def test_go_spelling() -> None:
    numbers = [1.0, 1e5, 123456.0, 1e6, 1234567.0, 1e-4, 1e-5, -2.5, 0.0, np.inf, -np.inf, np.nan]
    expected = "1 100000 123456 1e+06 1.234567e+06 0.0001 1e-05 -2.5 0 +Inf -Inf NaN"
    assert " ".join(format_float(number) for number in numbers) == expected
    assert [format_float(number, "f") for number in (1e21, 1e-7, -0.0, 0.1)] == [
        "1" + "0" * 21,
        "0.0000001",
        "-0",
        "0.1",
    ]
    assert quote('é"\n\x01\udcc5') == '"é\\"\\n\\x01\\xc5"'
    assert label_set((("__name__", "up"), ("a.b", "c"))) == '{__name__="up", "a.b"="c"}'


def test_range_vectors_with_edges() -> None:
    source = Written({"x{}": {-10: 1.0, 10: 3.0, 70: 5.0}, "z{}": {100: 1.0}})
    answer = ask(source, "x[1m] smoothed", start=60)
    assert isinstance(answer.value, Series)
    assert answer.value.time_ms.tolist() == [0, 10_000, 60_000]
    assert answer.value.value.tolist() == pytest.approx([2.0, 3.0, 3 + 2 * 50 / 60])
    answer = ask(source, "x[1m] anchored", start=60)
    assert isinstance(answer.value, Series)
    assert answer.value.value.tolist() == [1.0, 3.0, 3.0]


@pytest.mark.parametrize(
    "text", ["abs(" * 490 + "x" + ")" * 490, "sum(" * 490 + "x" + ")" * 490, "-" * 490 + "x"]
)
def test_deep_expressions(text: str) -> None:
    assert len(table(ask(Written({"x{}": {0: 1.0, 60: 1.0}}), text, count=2))) == 1
