"""Queries of native histograms say the same however they are cut, reset hints included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.promql import cut_promql
from lakerunner_query.histogram.model import Hint, Histogram, buckets_at
from lakerunner_query.plan.slices import SampleSliceSizes
from lakerunner_query.promql.evaluate import QueryResult
from lakerunner_query.protocol.answers import MetricAnswer
from lakerunner_query.protocol.units import MetricUnit, UnitReport
from lakerunner_query.vectors.vector import Labels, Vector
from lakerunner_query.worker.metrics import promql_units
from resources.lake.timecut import HOUR_NS
from tests.golden.engine_lake import EngineLake
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample
from tests.unit.lakerunner_query.worker.test_samples_of_segments import STALE

MINUTE = 60_000
BASE = 10 * 60 * MINUTE
WHOLE, SMALL = SampleSliceSizes(), SampleSliceSizes(rows=10, at_least=1)
Row = tuple[Labels, Sample, bool]
"""Labels, sample, and a flag that its sender speaks of resets."""
Points = dict[tuple[Labels, int], object]


@dataclass(frozen=True, slots=True)
class Asked:
    points: Points
    annotations: tuple[str, ...]
    units: int


class HintLake(EngineLake):
    """A lake whose answers keep their histograms."""

    def write_rows(self, rows: Sequence[Row], width_ms: int) -> None:
        for piece in sorted({row[1].time_ms // width_ms for row in rows}):
            mine = [row for row in rows if row[1].time_ms // width_ms == piece]
            table = sample_table([(labels, sample) for labels, sample, _ in mine])
            if "chq_hist_reset_hint" in table.column_names:
                at = table.column_names.index("chq_hist_reset_hint")
                sent = pc.if_else(pa.array([is_sent for *_, is_sent in mine]), table.column(at), None)
                table = table.set_column(at, "chq_hist_reset_hint", sent)
            self.write_table(piece * width_ms * 1_000_000 // HOUR_NS * HOUR_NS, table)

    def points(self, text: str, times: tuple[int, int, int], sizes: SampleSliceSizes, workers: int) -> Asked:
        self.language = replace(PROMQL, cut=partial(cut_promql, sizes=sizes))
        self.dispatcher.count, self.dispatcher.units = workers, 0
        with recorded_points() as found:
            answer = self.ask(text, *times)
        return Asked(found, tuple(sorted(a.render(text) for a in answer.annotations)), self.dispatcher.units)


@contextmanager
def recorded_points() -> Iterator[Points]:
    found: Points = {}
    render = promql_units.render_answer

    def record(answer: QueryResult, unit: MetricUnit, report: UnitReport) -> MetricAnswer:
        vector = answer.value
        assert isinstance(vector, Vector)
        for row, step in np.argwhere(vector.present).tolist():
            at = unit.first_ms + step * unit.step_ms
            found[vector.labels[row], at] = value_of(vector, row, step)
        return render(answer, unit, report)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promql_units, "render_answer", record)
        yield found


def value_of(vector: Vector, row: int, step: int) -> object:
    one = None if vector.histograms is None else vector.histograms[row, step]
    if one is None:
        return np.float64(vector.values[row, step]).tobytes()
    sides = [(side.index.tolist(), side.count.tolist()) for side in (one.positive, one.negative)]
    return one.hint.name, one.schema, one.zero_threshold, one.zero_count, one.count, str(one.sum), sides


def series(number: int, name: str = "h") -> Labels:
    return (("__name__", name), ("a", str(number)))


def counting(number: int, minutes: Sequence[int], counts: Sequence[float], *, sent: bool = True) -> list[Row]:
    return [
        (
            series(number),
            Sample(BASE + minute * MINUTE, 0.0, Histogram(0, count, count, positive=buckets_at(0, [count]))),
            sent,
        )
        for minute, count in zip(minutes, counts, strict=True)
    ]


def test_a_reset_that_is_the_first_sample_of_a_slice_is_known(tmp_path: Path) -> None:
    lake, minutes = HintLake(tmp_path), range(0, 100, 5)
    falling = [float(5 - at % 2) for at in range(len(minutes))]
    lake.write_rows(counting(0, minutes, falling) + counting(1, minutes, [7.0] * len(minutes)), 30 * MINUTE)
    text = "histogram_count(h{a='0'} + ignoring(a) h{a='1'})"
    times = BASE, BASE + 95 * MINUTE, 5 * MINUTE
    whole, cut = lake.points(text, times, WHOLE, 1), lake.points(text, times, SMALL, 4)
    assert whole.units < cut.units
    assert cut.points == whole.points
    assert sorted((at - BASE) // MINUTE for _, at in whole.points) == list(range(0, 100, 10))
    assert any("conflicting counter resets" in each for each in whole.annotations)


def test_a_histogram_long_before_says_nothing(tmp_path: Path) -> None:
    lake = HintLake(tmp_path)
    lake.write_rows(counting(0, [0, 5, 11], [1.0, 2.0, 3.0]), 3 * MINUTE)
    found = lake.points("h", (BASE, BASE + 11 * MINUTE, MINUTE), WHOLE, 1).points
    hints = {(at - BASE) // MINUTE: one[0] for (_, at), one in found.items() if isinstance(one, tuple)}
    assert hints == dict.fromkeys(range(5), "UNKNOWN") | dict.fromkeys(range(5, 10), "NO_RESET") | {
        11: "UNKNOWN"
    }


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Counters that fall now and then, gauges, stale markers, gaps; not all senders speak of resets."""
    found: list[Row] = []
    for number in range(3):
        speaks, minute, count = draw(st.booleans()) or not number, draw(st.integers(0, 9)), 5.0
        while minute < 75:
            count = max(1.0, count + draw(st.sampled_from([0.0, 1.0, 2.0, -3.0])))
            kind = draw(st.sampled_from(["counter"] * 12 + ["wide", "gauge", "reset", "stale", "float"]))
            buckets = buckets_at(0, [count] * (2 if kind == "wide" else 1))
            hint = {"gauge": Hint.GAUGE, "reset": Hint.RESET}.get(kind, Hint.UNKNOWN)
            total = STALE if kind == "stale" else count
            one = None if kind == "float" else Histogram(0, count, total, 0.0, 0.0, buckets, hint=hint)
            found.append((series(number), Sample(BASE + minute * MINUTE, count, one), speaks))
            minute += draw(st.sampled_from([1, 2, 2, 4, 5, 6]))
    found += [(series(number, "m"), Sample(BASE + m * MINUTE, float(m % 7)), False)
              for number in range(2) for m in range(number, 75, 3 + number)]  # fmt: skip
    return found


TEXTS = (
    "h", "sum(h)", "avg by (a) (h)", "h{a='0'} + ignoring(a) h{a='1'}", "h smoothed", "m smoothed",
    "histogram_count(sum(h))", "histogram_sum(avg(h))", "histogram_count(h smoothed)",
    "histogram_count(h{a='0'} + ignoring(a) h{a='1'})", "histogram_sum(h{a='0'} - ignoring(a) h{a='2'})",
    "histogram_count(sum_over_time(h[3m]))", "sum(last_over_time(h[7m]))", "sum_over_time(h[4m])",
    "rate(h[9m])", "histogram_count(increase(h[9m]))", "max_over_time(histogram_count(h)[6m:1m])",
    "histogram_count(sum(h @ 37800))", "sum(h offset 7m)", "rate(m[5m] smoothed)",
)  # fmt: skip


@given(
    rows=rows(),
    texts=st.lists(st.sampled_from(TEXTS), min_size=4, max_size=4, unique=True),
    start=st.integers(0, 30),
    step=st.sampled_from([1, 2, 4, 7]),
    workers=st.integers(2, 5),
)
@settings(max_examples=40, deadline=None)
def test_cut_in_any_way_the_answer_is_one_with_its_hints(
    rows: list[Row],
    texts: list[str],
    start: int,
    step: int,
    workers: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lake = HintLake(tmp_path_factory.mktemp("cut"))
    lake.write_rows(rows, 17 * MINUTE)
    first = BASE + start * MINUTE
    for text in texts:
        for times in ((first, first + 12 * step * MINUTE, step * MINUTE), (first, first, 0)):
            whole, cut = lake.points(text, times, WHOLE, 1), lake.points(text, times, SMALL, workers)
            assert cut.points == whole.points, f"{text} {times}"
            assert cut.annotations == whole.annotations, f"{text} {times}"
            assert cut.units > whole.units or not times[2]
