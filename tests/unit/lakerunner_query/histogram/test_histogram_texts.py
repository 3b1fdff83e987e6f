"""Histograms as texts and out of the lake's columns."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from lakerunner_query.histogram.model import CUSTOM, Hint, Histogram, buckets_at
from lakerunner_query.histogram.stored import StoredHistogramError, of_struct
from lakerunner_query.histogram.text import api_number, json_form, text
from lakerunner_query.promql.series_notation import histogram_notation
from resources.lake.rollup_columns import HIST
from tests.support.query.promql.histogram_of_observations import exponential, facts

TWO_SIDED = Histogram(
    0, 20.0, 10.0, 0.001, 2.0, buckets_at(0, [1.0, 0.0, 1.5]), buckets_at(0, [1.0, 2.0]), hint=Hint.GAUGE
)
BOUNDED = Histogram(CUSTOM, 4.0, math.inf, positive=buckets_at(0, [1.0, 0.0, 3.0]), bounds=(-2.5, 1e6))


def test_for_people() -> None:
    assert text(TWO_SIDED) == (
        "{count:20, sum:10, [-2,-1):2, [-1,-0.5):1, [-0.001,0.001]:2, (0.5,1]:1, (2,4]:1.5}"
    )
    assert text(BOUNDED) == "{count:4, sum:+Inf, [-Inf,-2.5]:1, (1e+06,+Inf]:3}"
    assert text(Histogram()) == "{count:0, sum:0}"


def test_for_scripts() -> None:
    assert histogram_notation(TWO_SIDED) == (
        "{{count:20 sum:10 z_bucket:2 z_bucket_w:0.001 counter_reset_hint:gauge buckets:[1 0 1.5] "
        "n_buckets:[1 2]}}"
    )
    assert (
        histogram_notation(BOUNDED)
        == "{{schema:-53 count:4 sum:+Inf custom_values:[-2.5 1e+06] buckets:[1 0 3]}}"
    )
    shifted = Histogram(2, 1.0, positive=buckets_at(-3, [0.0, 1.0]))
    assert histogram_notation(shifted) == "{{schema:2 count:1 offset:-2 buckets:[1]}}"


def test_for_the_api() -> None:
    assert json_form(TWO_SIDED) == {
        "count": "20",
        "sum": "10",
        "buckets": [
            [1, "-2", "-1", "2"],
            [1, "-1", "-0.5", "1"],
            [3, "-0.001", "0.001", "2"],
            [0, "0.5", "1", "1"],
            [0, "2", "4", "1.5"],
        ],
    }
    assert json_form(BOUNDED)["buckets"] == [[3, "-Inf", "-2.5", "1"], [0, "1000000", "+Inf", "3"]]
    assert json_form(Histogram()) == {"count": "0", "sum": "0"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1e20, "100000000000000000000"), (1e21, "1e+21"), (1e-6, "0.000001"), (1e-7, "1e-07"),
        (-2.5e-10, "-2.5e-10"), (0.1, "0.1"), (-0.0, "-0"), (math.nan, "NaN"), (-math.inf, "-Inf"),
    ],
)  # fmt: skip
def test_numbers_of_the_api(value: float, shown: str) -> None:
    assert api_number(value) == shown


def row(**told: object) -> dict[str, object]:
    return {field.name: told.get(field.name) for field in HIST}


def stored(*rows: dict[str, object] | None) -> list[Histogram | None]:
    return of_struct(pa.array(rows, HIST))


def test_stored_explicit_bounds() -> None:
    found = stored(None, row(bounds=[1.0, 5.0], counts=[2.0, 0.0, 1.0], count=3.0, sum=9.0))
    assert found[0] is None
    assert found[1] is not None
    expected = Histogram(CUSTOM, 3.0, 9.0, positive=buckets_at(0, [2.0, 0.0, 1.0]), bounds=(1.0, 5.0))
    assert facts(found[1]) == facts(expected)
    assert found[1].hint == Hint.UNKNOWN


def test_stored_exponential_buckets_are_numbered_by_where_they_begin() -> None:
    """(1, 2] is bucket 0 of the lake, and 1 of Prometheus."""
    found = stored(
        row(
            schema=0, positive_offset=0, positive_counts=[4.0], negative_offset=-2,
            negative_counts=[1.0, 2.0], zero_count=1.0, zero_threshold=0.125, count=8.0,
        )
    )[0]  # fmt: skip
    assert found is not None
    assert math.isnan(found.sum)
    assert facts(found)[1:5:2] == (8.0, 0.125)
    assert text(found) == "{count:8, sum:NaN, [-1,-0.5):2, [-0.5,-0.25):1, [-0.125,0.125]:1, (1,2]:4}"


def test_stored_custom_and_too_fine_schemas() -> None:
    own, fine = stored(
        row(
            schema=CUSTOM,
            bounds=[1.0, 2.0],
            positive_offset=1,
            positive_counts=[3.0, 4.0],
            count=7.0,
            sum=1.0,
        ),
        row(schema=10, positive_offset=0, positive_counts=[1.0] * 4, count=4.0, sum=1.0),
    )
    assert own is not None
    assert text(own) == "{count:7, sum:1, (1,2]:3, (2,+Inf]:4}"
    assert fine is not None
    assert facts(fine) == facts(Histogram(8, 4.0, 1.0, positive=buckets_at(1, [4.0])))


def test_stored_nonsense_is_named() -> None:
    with pytest.raises(StoredHistogramError, match="row 1: 3 counts from 0, expected at most 2"):
        stored(None, row(bounds=[1.0], counts=[1.0, 1.0, 1.0], count=3.0))
    with pytest.raises(StoredHistogramError, match="row 0: schema -5"):
        stored(row(schema=-5, count=0.0))


def test_the_oracle_agrees_with_a_histogram_by_hand() -> None:
    """2^(1/512) is in (1, 2], zero is zero."""
    assert (
        text(exponential([(1, 0), (0, 7), (-1, -256)], 0))
        == "{count:3, sum:-249, [-1,-0.5):1, [-0,0]:1, (1,2]:1}"
    )
