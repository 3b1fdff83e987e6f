"""Classic series of histogram and summary rows, and the native view of histograms with explicit buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakerunner_assets.segments.metric_columns import OPTIONAL
from lakerunner_query.errors import EvaluationError
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Series
from lakerunner_query.worker.metrics.classic_series import SampleBlock, bound_text, merge_series
from resources.lake import streams
from tests.unit.lakerunner_query.worker.test_samples_of_segments import STALE, Lake

LABELS = (("__name__", "wait"), ("path", "/"))


def table(rows: list[dict[str, Any]], metric_type: str = "histogram") -> pa.Table:
    columns: dict[str, Any] = {
        "metric_name": ["wait"] * len(rows),
        "chq_tid": pa.array([streams.stream_id(LABELS)] * len(rows), pa.int64()),
        "chq_timestamp": pa.array([row["ms"] for row in rows], pa.int64()),
        "chq_metric_type": [metric_type] * len(rows),
        "chq_object": pa.array([1] * len(rows), pa.int64()),
        "chq_position": pa.array(range(len(rows)), pa.int64()),
        "chq_series": [streams.labels_to_text(LABELS)] * len(rows),
        "chq_value": pa.array(
            np.array([row.get("value", 0.0) for row in rows]),
            mask=np.array(["value" not in row for row in rows]),
            from_pandas=False,
        ),
    }
    for name in sorted({name for row in rows for name in row} - {"ms", "value"}):
        columns[name] = pa.array([row.get(name) for row in rows], OPTIONAL[name])
    return pa.table(columns)


def histogram(ms: int, counts: list[int], bounds: list[float], total: float = 3.5) -> dict[str, Any]:
    return {
        "ms": ms, "chq_hist_counts": counts, "chq_hist_bounds": bounds, "chq_hist_count": sum(counts),
        "chq_hist_sum": total,
    }  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = Lake(tmp_path)
    rows = [
        histogram(1000, [1, 4, 2], [0.1, 0.5]),
        histogram(2000, [2, 4, 3], [0.1, 0.5], 5.0),
        {"ms": 3000, "value": STALE},
        histogram(4000, [7, 1], [10.0]),
    ]
    found.write(table(rows))
    return found


def named(name: str, *more: Matcher) -> tuple[Matcher, ...]:
    return (Matcher("__name__", MatchOp.EQUAL, name), *more)


def by_series(found: Series) -> dict[str, list[tuple[int, float]]]:
    rows = np.repeat(np.arange(found.count), np.diff(found.offsets)).tolist()
    told: dict[str, list[tuple[int, float]]] = {}
    for at, row in enumerate(rows):
        labels = ",".join(f"{k}={v}" for k, v in found.labels[row] if k != "path")
        told.setdefault(labels, []).append((int(found.time_ms[at]), float(found.value[at])))
    return told


def test_buckets_are_cumulative_and_end_with_a_stale_marker(lake: Lake) -> None:
    found = by_series(lake.select(named("wait_bucket"), 0, 3000))
    assert {labels: rows[:2] for labels, rows in found.items()} == {
        "__name__=wait_bucket,le=0.1": [(1000, 1.0), (2000, 2.0)],
        "__name__=wait_bucket,le=0.5": [(1000, 5.0), (2000, 6.0)],
        "__name__=wait_bucket,le=+Inf": [(1000, 7.0), (2000, 9.0)],
    }
    for rows in found.values():
        assert [ms for ms, _ in rows] == [1000, 2000, 3000]
        assert np.isnan(rows[2][1])


def test_bounds_that_change_are_series_of_their_own(lake: Lake) -> None:
    found = by_series(lake.select(named("wait_bucket"), 3000, 5000))
    assert found == {
        "__name__=wait_bucket,le=10": [(4000, 7.0)],
        "__name__=wait_bucket,le=+Inf": [(4000, 8.0)],
    }


def test_sum_and_count(lake: Lake) -> None:
    assert by_series(lake.select(named("wait_sum"), 0, 2000)) == {
        "__name__=wait_sum": [(1000, 3.5), (2000, 5.0)]
    }
    assert by_series(lake.select(named("wait_count"), 0, 2000)) == {
        "__name__=wait_count": [(1000, 7.0), (2000, 9.0)]
    }


def test_a_matcher_on_le_picks_buckets_and_excludes_the_rest(lake: Lake) -> None:
    le = Matcher("le", MatchOp.EQUAL, "0.5")
    assert list(by_series(lake.select(named("wait_bucket", le), 0, 2000))) == ["__name__=wait_bucket,le=0.5"]
    assert lake.select(named("wait_sum", le), 0, 2000).count == 0
    every = (Matcher("__name__", MatchOp.REGEX, "wait.*"), Matcher("le", MatchOp.EQUAL, ""))
    assert {dict(labels)["__name__"] for labels in lake.select(every, 0, 2000).labels} == {
        "wait_sum", "wait_count",
    }  # fmt: skip


def test_the_bare_name_is_a_native_histogram_only_if_it_is_given_exactly(lake: Lake) -> None:
    native = lake.select(named("wait"), 0, 2000)
    assert native.histograms is not None
    assert [h.count for h in native.histograms] == [7.0, 9.0]
    assert native.histograms[0].bounds == (0.1, 0.5)
    pattern = lake.select((Matcher("__name__", MatchOp.REGEX, "wait"),), 0, 2000)
    assert pattern.count == 0


def test_quantiles_of_summaries(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    pairs = [{"quantile": 0.5, "value": 2.0}, {"quantile": 0.99, "value": 9.0}]
    row = {"ms": 1000, "chq_summary_quantiles": pairs, "chq_hist_count": 4, "chq_hist_sum": 11.0}
    lake.write(table([row], "summary"))
    assert by_series(lake.select(named("wait"))) == {
        "__name__=wait,quantile=0.5": [(1000, 2.0)],
        "__name__=wait,quantile=0.99": [(1000, 9.0)],
    }
    assert by_series(lake.select(named("wait_sum"))) == {"__name__=wait_sum": [(1000, 11.0)]}
    assert by_series(lake.select(named("wait_count"))) == {"__name__=wait_count": [(1000, 4.0)]}
    assert lake.select(named("wait_bucket")).count == 0


@pytest.mark.parametrize(
    ("bound", "text"), [(0.005, "0.005"), (1.0, "1"), (2.5e9, "2500000000"), (float("inf"), "+Inf")]
)
def test_bounds_are_spelled_without_exponents(bound: float, text: str) -> None:
    assert bound_text(bound) == text


def test_a_stored_histogram_with_the_labels_of_a_derived_series_is_refused_in_words() -> None:
    histograms = np.array([Histogram(count=1.0)], np.object_)
    stored = Series([LABELS], np.array([0, 1]), np.array([1000]), np.zeros(1), histograms)
    block = SampleBlock([LABELS], np.array([0]), np.array([2000]), np.ones(1), None)
    with pytest.raises(
        EvaluationError, match=r'__name__="wait", path="/"\}: stored as samples, and a classic series'
    ):
        merge_series(stored, [block])
