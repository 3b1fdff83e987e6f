"""Range functions: kinds of samples in a window, temporality, `@`, sources that answer, annotations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import EvaluationError
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.promql.context import Options, SourceAnswer
from lakerunner_query.vectors.vector import Series
from lakerunner_query.windows.grid import WindowValues
from tests.support.query.promql.functions_at_hand import (
    asked,
    deltas,
    is_nan,
    labels,
    ranged,
    said,
    source_of,
)

MIXED = "m 1 4 {{sum:1 count:2}} {{sum:3 count:5}} 9"


def test_counting_and_picking_see_both_kinds() -> None:
    assert ranged(MIXED, "count_over_time(m[2m])", 0, 240, 60) == {(): [1.0, 2.0, 2.0, 2.0, 2.0]}
    assert ranged(MIXED, "present_over_time(m[1m])", 60, 120, 60) == {(): [1.0, 1.0]}
    assert asked(MIXED, "last_over_time(m[2m])", at=60) == {labels(name="m"): 4.0}
    found = asked(MIXED, "last_over_time(m[2m])", at=180)[labels(name="m")]
    assert isinstance(found, Histogram)
    assert found.count == 5
    first = asked(MIXED, "first_over_time(m[2m])", at=180)[labels(name="m")]
    assert isinstance(first, Histogram)
    assert first.count == 2
    assert asked(MIXED, "ts_of_last_over_time(m[10m])", at=240) == {(): 240.0}
    assert asked(MIXED, "ts_of_first_over_time(m[2m])", at=180) == {(): 120.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("min_over_time(m[10m])", 1.0),
        ("max_over_time(m[10m])", 9.0),
        ("quantile_over_time(0.5, m[10m])", 4.0),
        ("mad_over_time(m[10m])", 3.0),
        ("ts_of_max_over_time(m[10m])", 240.0),
        ("stdvar_over_time(m[4m])", 6.25),
    ],
)
def test_histograms_beside_floats_are_ignored_aloud(text: str, value: float) -> None:
    assert asked(MIXED, text, at=240) == {(): pytest.approx(value)}
    [note] = said(MIXED, text, at=240)
    column = text.index("0.5" if "0.5" in text else "m[") + 1
    assert note == (
        "PromQL info: ignored histograms in a range containing both floats and histograms for metric name "
        f'"m" (1:{column})'
    )


@pytest.mark.parametrize(
    "function", ["min_over_time", "stddev_over_time", "mad_over_time", "deriv", "ts_of_min_over_time"]
)
def test_histograms_alone_have_no_such_answer(function: str) -> None:
    assert asked(MIXED, f"{function}(m[2m])", at=180) == {}
    assert said(MIXED, f"{function}(m[2m])", at=180) == []


@pytest.mark.parametrize("function", ["sum_over_time", "avg_over_time", "delta"])
def test_a_mix_has_no_sum(function: str) -> None:
    assert asked(MIXED, f"{function}(m[2m])", at=120) == {}
    place = f"(1:{len(function) + 2})"
    assert said(MIXED, f"{function}(m[2m])", at=120) == [
        f'PromQL warning: encountered a mix of histograms and floats for metric name "m" {place}'
    ]


def test_histograms_are_summed_and_averaged() -> None:
    [total] = asked(MIXED, "sum_over_time(m[2m])", at=180).values()
    [mean] = asked(MIXED, "avg_over_time(m[2m])", at=180).values()
    assert isinstance(total, Histogram)
    assert isinstance(mean, Histogram)
    assert (total.count, total.sum, mean.count, mean.sum) == (7, 4, 3.5, 2)


def test_kinds_that_take_turns_are_resets_and_changes() -> None:
    # 1 4 H H 9: from 4 to H, H to another H, H to 9; growth is no reset.
    assert ranged(MIXED, "changes(m[10m])", 0, 240, 60) == {(): [0.0, 1.0, 2.0, 3.0, 4.0]}
    assert ranged(MIXED, "resets(m[10m])", 0, 240, 60) == {(): [0.0, 0.0, 1.0, 1.0, 2.0]}


def test_rates_of_histograms_are_drawn_out_as_counts_are() -> None:
    both = "h {{sum:2 count:4}} {{sum:3 count:6}} {{sum:4 count:8}}\nf_total 4 6 8"
    [histogram] = asked(both, "increase(h[3m])", at=120).values()
    [number] = asked(both, "increase(f_total[3m])", at=120).values()
    assert isinstance(histogram, Histogram)
    # Two samples a minute apart each: 4 over 120 s, drawn out by 60 s to the left.
    assert number == pytest.approx(6.0)
    assert (histogram.count, histogram.sum) == (pytest.approx(6.0), pytest.approx(3.0))


def test_irate_looks_at_the_last_two_whatever_is_before() -> None:
    [found] = asked(MIXED, "irate(m[10m])", at=180).values()
    assert isinstance(found, Histogram)
    assert (found.count, found.sum) == (3 / 60, 2 / 60)
    assert asked(MIXED, "irate(m[10m])", at=60) == {(): 3 / 60}
    assert asked(MIXED, "irate(m[10m])", at=240) == {}
    assert asked(MIXED, "irate(m[10m])", at=0) == {}
    [values] = ranged(MIXED, "irate(m[10m])", 0, 240, 60).values()
    assert ["histogram" if isinstance(value, Histogram) else value for value in values] == [
        None, 3 / 60, None, "histogram", None,
    ]  # fmt: skip
    assert said(MIXED, "idelta(m[2m])", at=240) == [
        'PromQL warning: encountered a mix of histograms and floats for metric name "m" (1:8)'
    ]


def test_deltas_grow_by_their_sum() -> None:
    source = source_of("m_total 1 2 4 8", change=deltas)
    assert asked(source, "increase(m_total[3m])", at=180) == {(): 14.0}
    assert asked(source, "rate(m_total[3m])", at=180) == {(): pytest.approx(14 / 180)}
    assert asked(source, "increase(m_total[3m] anchored)", at=180) == {(): 14.0}
    assert asked(source, "resets(m_total[3m])", at=180) == {(): 0.0}
    histograms = source_of("h {{sum:1 count:2}} {{sum:2 count:3}} {{sum:1 count:1}}", change=deltas)
    [found] = asked(histograms, "increase(h[2m])", at=120).values()
    assert isinstance(found, Histogram)
    assert (found.count, found.sum) == (4, 3)
    assert asked(histograms, "resets(h[2m])", at=120) == {(): 0.0}


def test_two_temporalities_in_a_window_are_an_error_that_names_the_series() -> None:
    def mixed(series: Series) -> Series:
        return replace(series, is_delta=np.arange(len(series.time_ms)) % 2 == 0)

    for text in ("rate(m_total[3m])", "irate(m_total[3m])"):
        with pytest.raises(
            EvaluationError, match=r'series \{__name__="m_total", a="1"\}, window ending at 120000 ms'
        ):
            asked(source_of('m_total{a="1"} 1 2 4', change=mixed), text, at=120)
    histograms = source_of("h {{sum:1 count:2}} {{sum:2 count:3}} {{sum:1 count:1}}", change=mixed)
    with pytest.raises(EvaluationError, match="delta and cumulative samples together"):
        asked(histograms, "increase(h[3m])", at=120)


def test_a_fixed_window_answers_with_each_steps_scalar() -> None:
    some = "m 0 60 120 180"
    assert ranged(some, "quantile_over_time(time() / 60, m[3m] @ 180)", 0, 60, 60) == {(): [60.0, 180.0]}
    # The line 1 x second, told for 60 s after each step.
    [values] = ranged(some, "predict_linear(m[3m] @ 180, 60)", 0, 60, 60).values()
    assert values == [pytest.approx(60.0), pytest.approx(120.0)]
    assert ranged(some, "rate(m[3m] @ 180)", 0, 60, 60) == {(): [pytest.approx(1.0)] * 2}
    assert ranged(some, "max_over_time(m[3m] @ 60 offset 1m)", 0, 60, 60) == {(): [0.0, 0.0]}


def test_infinity_has_no_slope_and_too_few_samples_no_line() -> None:
    assert is_nan(asked("m Inf Inf Inf", "deriv(m[3m])", at=120)[()])
    assert asked("m 1", "deriv(m[3m])") == {}
    assert asked("m 5 5 5", "deriv(m[3m])", at=120) == {(): 0.0}


def test_smoothing_needs_factors_between_zero_and_one() -> None:
    with pytest.raises(
        EvaluationError, match=r"invalid smoothing factor. Expected: 0 < sf < 1, got: 1.000000"
    ):
        asked("m 1 2", "double_exponential_smoothing(m[2m], 1, 0.5)", at=60)
    with pytest.raises(EvaluationError, match=r"invalid trend factor. Expected: 0 < tf < 1, got: -1.000000"):
        asked("m 1 2", "double_exponential_smoothing(m[2m], 0.5, -1)", at=60)
    assert asked("x 1", "double_exponential_smoothing(m[2m], 7, 7)") == {}


def test_quantiles_out_of_range_are_infinite_and_remarked_on() -> None:
    assert asked("m 1 2", "quantile_over_time(-0.1, m[2m])", at=60) == {(): -math.inf}
    assert said("m 1 2", "quantile_over_time(-0.1, m[2m])", at=60) == [
        "PromQL warning: quantile value should be between 0 and 1, got -0.1 (1:20)"
    ]


def test_names_that_no_counter_has_are_doubted() -> None:
    doubt = "PromQL info: metric might not be a counter, "
    assert said("m 1 2", "rate(m[2m])", at=60) == [
        doubt + 'name does not end in _total/_sum/_count/_bucket: "m" (1:6)'
    ]
    assert said("m_total 1 2", "rate(m_total[2m])", at=60) == []
    assert said("m 1", "rate(m[2m])", at=0) == []
    assert said("m 1 2", "delta(m[2m])", at=60) == []
    typed = Options(type_and_unit_labels=True)
    assert said('m{__type__="counter"} 1 2', "increase(m[2m])", 60, typed) == []
    assert said('m_total{__type__="gauge"} 1 2', "increase(m_total[2m])", 60, typed) == [
        doubt + '__type__ label is not set to "counter" or "histogram", got "gauge": "m_total" (1:10)'
    ]


def test_of_a_subquery_the_place_is_not_known() -> None:
    assert said("m 1 2", "abs(rate(m[2m:1m]))", at=60) == [
        "PromQL info: metric might not be a counter, name does not end in "
        '_total/_sum/_count/_bucket: "m" (1:1)'
    ]


def test_gauges_and_counters_are_told_apart() -> None:
    gauge = "h {{sum:1 count:1 counter_reset_hint:gauge}} {{sum:2 count:2 counter_reset_hint:gauge}}"
    assert said(gauge, "rate(h[2m])", at=60) == [
        'PromQL warning: this native histogram metric is not a counter: "h" (1:6)'
    ]
    counter = "h {{sum:1 count:1}} {{sum:2 count:2}}"
    for function in ("delta", "idelta"):
        assert said(counter, f"{function}(h[2m])", at=60) == [
            f'PromQL warning: this native histogram metric is not a gauge: "h" (1:{len(function) + 2})'
        ]


def test_a_source_that_knows_the_answer_is_not_asked_for_samples() -> None:
    def fail(series: Series) -> Series:
        raise AssertionError("samples were asked for")

    source = source_of("m_total 1", change=fail)
    source.answer = SourceAnswer(
        [labels(name="m_total")], WindowValues(np.array([[7.0]]), np.array([[True]]))
    )
    assert asked(source, "increase(m_total[5m])") == {(): 7.0}
    assert asked(source, "last_over_time((m_total[5m]))") == {labels(name="m_total"): 7.0}
    assert asked(source, "timestamp(m_total)") == {(): 7.0}
    for text, options in (
        ("increase(m_total[5m] smoothed)", Options()),
        ("increase(m_total[5m])", Options(start_timestamps=True)),
        ("mad_over_time(m_total[5m])", Options()),
    ):
        with pytest.raises(AssertionError, match="samples were asked for"):
            asked(source, text, options=options)


def test_anchored_histograms_take_the_sample_at_the_edge() -> None:
    some = "h {{sum:1 count:1}} {{sum:3 count:3}} {{sum:4 count:7}}\nf 1 3 7"
    [histogram] = asked(some, "increase(h[90s] anchored)", at=120).values()
    assert isinstance(histogram, Histogram)
    assert histogram.count == 6
    assert asked(some, "increase(f[90s] anchored)", at=120) == {(): 6.0}
    # Half way between 1 and 3, and at 7.
    [histogram] = asked(some, "increase(h[90s] smoothed)", at=120).values()
    assert isinstance(histogram, Histogram)
    assert histogram.count == pytest.approx(5)
    assert asked(some, "changes(h[90s] anchored)", at=120) == {(): 2.0}


@pytest.mark.parametrize("reach", ["", " anchored", " smoothed"])
@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.none() | st.integers(0, 9), min_size=2, max_size=9),
    width=st.sampled_from([61, 90, 150, 240]),
    at=st.integers(0, 600),
)
def test_counts_of_histograms_grow_as_counters_do(
    reach: str, counts: list[int | None], width: int, at: int
) -> None:
    """A histogram with nothing but a count falls where the count falls."""
    floats = " ".join("_" if one is None else str(one) for one in counts)
    histograms = " ".join("_" if one is None else f"{{{{count:{one}}}}}" for one in counts)
    source = f"f {floats}\nh {histograms}"
    number = list(asked(source, f"increase(f[{width}s]{reach})", at=at).values())
    found = list(asked(source, f"histogram_count(increase(h[{width}s]{reach}))", at=at).values())
    assert found == pytest.approx(number)


def test_beginnings_are_looked_at_only_if_asked() -> None:
    some = "m_total@st -30s -30s -30s\nm_total 5 6 7"
    on = Options(start_timestamps=True)
    assert asked(some, "resets(m_total[3m])", at=120) == {(): 0.0}
    assert asked(some, "resets(m_total[3m])", at=120, options=on) == {(): 2.0}
    assert asked(some, "resets(m_total[1m] anchored)", at=120, options=on) == {(): 1.0}
    assert asked(some, "start_timestamp(m_total)", at=130, options=on) == {(): 90.0}
    assert asked(some, "start_timestamp(m_total)", at=130) == {}
    assert asked(some, "start_timestamp(abs(m_total))", at=130, options=on) == {}
