"""Quantiles and fractions of classic and native histograms."""

from __future__ import annotations

import math

import pytest

from lakerunner_query.errors import SAME_LABELS, EvaluationError
from lakerunner_query.promql.functions import histograms
from lakerunner_query.promql.functions.histograms import format_open_metrics, parse_bound
from lakerunner_query.vectors.vector import Steps
from tests.support.query.promql.functions_at_hand import answer, asked, labels, ranged, said, source_of

TWO = """
    h_bucket{a="x", le="1"} 2 2
    h_bucket{a="x", le="2"} 6 6
    h_bucket{a="x", le="+Inf"} 8 8
    h_bucket{a="y", le="+Inf"} 4 _
    h_bucket{a="y", le="1.0"} 4 _
    h_bucket{a="z", le="10"} _ 1
    h_bucket{a="z", le="Inf"} _ 2
"""


def test_each_group_of_bounds_is_a_histogram() -> None:
    # x: rank 4 lies in (1, 2], half way from 2 to 6. y: rank 2 of 4 in (0, 1]. z: rank 1 of 2 at 10.
    assert asked(TWO, "histogram_quantile(0.5, h_bucket)") == {labels(a="x"): 1.5, labels(a="y"): 0.5}
    assert asked(TWO, 'histogram_quantile(0.5, h_bucket{a="z"})', at=60) == {labels(a="z"): 10.0}


def test_answers_do_not_depend_on_how_many_are_worked_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    many = "\n".join(f'b{{i="{i}", le="{le}"}} {i + 1} {2 * i + 2}' for i in range(7) for le in ("1", "+Inf"))
    together = ranged(many, "histogram_quantile(0.5, b)", 0, 60, 60)
    monkeypatch.setattr(histograms, "MANY_CELLS", 9)
    assert ranged(many, "histogram_quantile(0.5, b)", 0, 60, 60) == together
    assert together == {labels(i=str(i)): [0.5, 0.5] for i in range(7)}


def test_the_quantile_may_change_from_step_to_step() -> None:
    assert ranged(TWO, 'histogram_quantile(time() / 60, h_bucket{a="x"})', 0, 60, 60) == {
        labels(a="x"): [0.0, 2.0]
    }
    assert ranged(TWO, 'histogram_fraction(0, time() / 60, h_bucket{a="x"})', 0, 60, 60) == {
        labels(a="x"): [0.0, 0.25]
    }


def test_quantiles_are_labelled_as_openmetrics_numbers() -> None:
    found = asked(TWO, 'histogram_quantiles(h_bucket{a="x"}, "q", 0.5, 1, -1)')
    assert found == {
        labels(a="x", q="0.5"): 1.5,
        labels(a="x", q="1.0"): 2.0,
        labels(a="x", q="-1.0"): -math.inf,
    }
    assert said(TWO, 'histogram_quantiles(h_bucket{a="x"}, "q", 0.5, 1, -1)') == [
        "PromQL warning: quantile value should be between 0 and 1, got -1 (1:51)"
    ]
    assert [format_open_metrics(one) for one in (0.0, 1e6, 1e-7, math.nan, -math.inf)] == [
        "0.0", "1e+06", "1e-07", "NaN", "-Inf",
    ]  # fmt: skip


def test_a_quantile_label_that_makes_series_equal_is_refused() -> None:
    with pytest.raises(EvaluationError, match=SAME_LABELS):
        asked(TWO, 'histogram_quantiles(h_bucket, "a", 0.5)')


def test_bounds_are_read_as_go_does() -> None:
    good = {
        "1": 1.0,
        "+1e3": 1000.0,
        ".5": 0.5,
        "5.": 5.0,
        "Infinity": math.inf,
        "-inf": -math.inf,
        "0x1p4": 16.0,
    }
    assert {text: parse_bound(text) for text in good} == good
    assert [parse_bound(text) for text in ("", " 1", "1_000", "1e", "+nan", "0x10", "\u0661")] == [None] * 7


def test_series_without_a_bound_are_told_of() -> None:
    some = 'm{le="x"} 1\nm 1'
    assert asked(some, "histogram_quantile(0.5, m)") == {}
    told = 'PromQL warning: bucket label "le" is missing or has a malformed value of '
    assert said(some, "histogram_quantile(0.5, m)") == [
        told + '"" for metric name "m" (1:25)',
        told + '"x" for metric name "m" (1:25)',
    ]


BOTH = """
    s{le="1"} 2 2
    s{le="+Inf"} 4 4
    s {{schema:0 sum:5 count:4 buckets:[1 2 1]}} stale
"""


def test_classic_and_native_of_one_name_leave_a_step_without_answer() -> None:
    assert ranged(BOTH, "histogram_quantile(0.5, s)", 0, 60, 60) == {(): [None, 1.0]}
    assert said(BOTH, "histogram_fraction(0, 1, s)") == [
        'PromQL warning: vector contains a mix of classic and native histograms for metric name "s" (1:26)'
    ]


def test_buckets_that_fall_are_told_of_once_for_all_steps() -> None:
    some = 'b{le="1"} 5 5\nb{le="2"} 3 4\nb{le="+Inf"} 6 6'
    text = "histogram_quantile(0.5, b)"
    [note] = answer(source_of(some), text, Steps(0, 60_000, 2)).annotations
    assert note.render(text).endswith(
        ' for metric name "b", from buckets 2 to 2, with a max diff of 2, over 2 samples '
        "from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z (1:25)"
    )


def test_native_histograms_answer_beside_classic_ones() -> None:
    some = 'h{a="n"} {{schema:0 sum:5 count:4 buckets:[1 2 1]}}\nh{a="c", le="1"} 1\nh{a="c", le="+Inf"} 1'
    found = asked(some, "histogram_quantile(0.5, h)")
    assert found == {labels(a="n"): pytest.approx(math.sqrt(2)), labels(a="c"): 0.5}


@pytest.mark.parametrize(
    ("function", "value"),
    [("histogram_count", 4.0), ("histogram_sum", 5.0), ("histogram_avg", 1.25)],
)
def test_floats_have_no_parts(function: str, value: float) -> None:
    some = 'h{a="n"} {{schema:0 sum:5 count:4 buckets:[1 2 1]}}\nh{a="f"} 1'
    assert asked(some, f"{function}(h)") == {labels(a="n"): value}
