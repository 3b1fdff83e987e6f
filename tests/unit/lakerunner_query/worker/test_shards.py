"""Shards of series: what is cut so, and that the answer is the one of a single worker to the last byte."""

from __future__ import annotations

import asyncio
import doctest
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments.metric_columns import OPTIONAL
from lakerunner_query.coordinator.engine import PROMQL_FEATURES as FLAGS
from lakerunner_query.coordinator.promql import PromQLRequest, decode_shard, join_shards
from lakerunner_query.errors import QueryError
from lakerunner_query.histogram.model import CUSTOM, Hint, Histogram, buckets_at
from lakerunner_query.plan.promql import per_series
from lakerunner_query.plan.slices import SampleSliceSizes
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.answers import (
    MetricAnswer,
    Note,
    ShardAnswer,
    ShardPart,
    Trait,
    agree,
    encode_shard_answer,
    notes_together,
    report_together,
)
from lakerunner_query.protocol.units import MetricUnit, Missing, ShardUnit, Unit, UnitReport
from lakerunner_query.vectors.vector import Labels, Vector
from lakerunner_query.worker.metrics import shards
from lakerunner_query.worker.metrics.promql_units import MetricScanner
from lakerunner_query.worker.metrics.shards import decode_vector, encode_vector, merge_vectors
from resources.duckdb import Cancellation
from resources.lake import streams
from tests.golden.engine_lake import ORG, EngineLake
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample
from tests.unit.lakerunner_query.worker.test_samples_of_segments import STALE, Lake

MINUTE = 60_000
NOW = 60 * MINUTE


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sum(m)", ["m"]),
        ("sum by (a) (rate(m[5m])) / sum(n)", ["rate(m[5m])", "n"]),
        ("histogram_quantile(0.9, sum by (le) (rate(m[5m])))", ["rate(m[5m])"]),
        ("topk(3, quantile_over_time(-(0.5), (m[5m])))", ["quantile_over_time(-(0.5), (m[5m]))"]),
        ("max(abs(m) > 0 or n offset 5m)", ["m", "n offset 5m"]),
        ("avg(predict_linear(m[1h] @ 60, 60))", ["predict_linear(m[1h] @ 60.000, 60)"]),
        ("sum(timestamp(rate(m[5m])))", ["rate(m[5m])"]),
        ("count(absent(m))", ["m"]),
        ("m", None),
        ("rate(m[5m])", None),
        ("m / on () group_left sum(n)", None),
        ("1 + 1", None),
        ("m[5m]", None),
        ("sum(timestamp((m)))", None),
        ("sum(start_timestamp(m))", None),
        ("sum(info(m))", None),
        ("sum(absent_over_time(m[5m]))", None),
        ("sum(max_over_time(m[5m:1m]))", None),
        ("max_over_time(sum(m)[5m:1m])", None),
        ("sum(rate(m[5m] anchored))", None),
        ("sum(rate(m[5m] smoothed))", None),
        ("sum(m smoothed)", None),
        ("sum(predict_linear(m[1h], scalar(n)))", None),
        ("sum(predict_linear(m[1h], time()))", None),
    ],
)
def test_what_is_of_single_series(text: str, parts: list[str] | None) -> None:
    found = per_series(bind(parse(text), 0, NOW, 0))
    assert (None if found is None else [to_text(part) for part in found]) == parts


def test_names_of_a_family() -> None:
    assert doctest.testmod(shards).failed == 0


def test_a_vector_comes_back_with_every_bit() -> None:
    odd = float(np.uint64(0x7FF8DEADBEEF0001).view(np.float64))
    histograms = np.full((3, 2), None, object)
    histograms[1, 0] = Histogram(
        3, 7.25, odd, 1e-128, -0.0, buckets_at(-4, [0.1, 1 / 3]), buckets_at(2, [5e-324]), (), Hint.GAUGE
    )
    histograms[2, 1] = Histogram(CUSTOM, 3.0, 9.0, positive=buckets_at(0, [3.0]), bounds=(0.1, 5.0))
    labels: list[Labels] = [(("__name__", "m"),), (("a", "é\n"),), (("a", "z"),)]
    present = np.array([[True, False], [True, True], [False, True]])
    values = np.array([[odd, STALE], [-0.0, np.inf], [5e-324, -1.5]])
    sent = Vector(labels, values, present, histograms, np.array([True, False, True]))
    found = decode_vector(encode_vector(sent))
    assert (found.labels, found.values.tobytes()) == (labels, values.tobytes())
    assert found.present.tolist() == present.tolist()
    assert found.drop_name is not None and found.drop_name.tolist() == [True, False, True]  # noqa: PT018
    assert found.histograms is not None
    for one, other in zip(histograms.ravel(), found.histograms.ravel(), strict=True):
        assert bits(one) == bits(other)
    empty = decode_vector(encode_vector(Vector([], np.zeros((0, 2)), np.zeros((0, 2), np.bool_))))
    assert (empty.labels, empty.present.shape, empty.histograms, empty.drop_name) == ([], (0, 2), None, None)


def bits(one: Histogram | None) -> object:
    if one is None:
        return None
    numbers = np.array([one.count, one.sum, one.zero_threshold, one.zero_count, *one.bounds]).tobytes()
    sides = [(side.index.tolist(), side.count.tobytes()) for side in (one.positive, one.negative)]
    return one.schema, numbers, sides, one.hint, len(one.bounds)


def test_series_of_all_shards_are_in_order_of_labels() -> None:
    def vector(*names: str) -> Vector:
        values = np.array([[float(ord(name))] for name in names]).reshape(-1, 1)
        return Vector([(("a", name),) for name in names], values, np.ones(values.shape, np.bool_))

    found = merge_vectors([vector("a", "d"), vector(), vector("b", "c")], 1)
    assert [labels[0][1] for labels in found.labels] == ["a", "b", "c", "d"]
    assert found.values[:, 0].tolist() == [97.0, 98.0, 99.0, 100.0]


A, B, C = (Note("info", key, "", None, (0, 1)) for key in "abc")


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        ([(), ()], ()),
        ([(A,), ()], (A,)),
        ([(A, B), (A, B), (A,)], (A, B)),
        ([(A,), (B,)], None),
        ([(A, B), (B,)], None),
        ([(A, C), (A, B)], None),
    ],
)
def test_annotations_have_an_order_or_none_is_made_up(
    shards: list[tuple[Note, ...]], expected: tuple[Note, ...] | None
) -> None:
    assert notes_together(shards) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, True),
        ({"series": 5}, {"series": 5}, True),
        ({"series": 5}, {"series": 6}, False),
        ({"samples": 50}, {"samples": 51}, False),
        ({"traits": Trait.NATIVE}, {"traits": Trait.UNHINTED | Trait.NATIVE}, True),
        ({"traits": Trait.UNHINTED | Trait.NATIVE}, {"traits": Trait.UNITED}, False),
    ],
)
def test_what_only_all_series_decide_is_asked_of_all(
    first: dict[str, int], second: dict[str, int], expected: bool
) -> None:
    answers = [
        msgspec.structs.replace(ShardAnswer((ShardPart(b""),)), **{k: int(v) for k, v in one.items()})
        for one in (first, second)
    ]
    assert agree(answers, 10, 100) is expected
    assert agree(answers, 0, 0) is (expected or not {*first, *second} & {"traits"})


def test_reports_of_shards_are_one() -> None:
    lost = Missing("s1", "gone")
    one = ShardAnswer(
        (), opened=("s2", "s3"), report=UnitReport((lost,), 2, rows_considered=5, bytes_fetched=7)
    )
    two = ShardAnswer((), opened=("s3",), report=UnitReport((lost,), 1, rows_considered=1, bytes_fetched=2))
    assert report_together([one, two]) == UnitReport((lost,), 2, rows_considered=6, bytes_fetched=9)


@dataclass(frozen=True, slots=True)
class Both:
    """A lake of every kind of series, asked with shards and without."""

    lake: Lake
    scanner: MetricScanner

    def unit(self, text: str, count: int = 1, **more: Any) -> MetricUnit:
        step = MINUTE if count > 1 else 0
        start = NOW - (count - 1) * step
        segments = tuple(self.lake.segments)
        return MetricUnit("", text, start, NOW, step, start, count, 300_000, segments, features=FLAGS, **more)

    def plain(self, unit: MetricUnit) -> MetricAnswer | str:
        try:
            return self.scanner.run(unit, Cancellation())
        except QueryError as error:
            return f"{type(error).__name__}: {error}"

    def sharded(self, unit: MetricUnit, shards: int) -> MetricUnit:
        """What is left when the shards are there, as the engine has it; all if one fails."""
        try:
            bodies = [self._shard(unit, number, shards) for number in range(shards)]
        except (QueryError, ValueError):
            return unit
        rest: MetricUnit = travelled(join_shards(unit, [decode_shard(body) for body in bodies]))
        return rest

    def _shard(self, unit: MetricUnit, number: int, count: int) -> bytes:
        found = travelled(ShardUnit(unit, number, count))
        return encode_shard_answer(self.scanner.shard(found, Cancellation()))


def travelled(unit: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(unit), type=Unit)


def counters(rng: np.random.Generator) -> list[tuple[Labels, Sample]]:
    """Counters with resets and stale markers, odd values, native histograms that grow and fall."""
    rows: list[tuple[Labels, Sample]] = []
    for number in range(14):
        name = ("requests_total", "level", "other")[number % 3]
        labels = (("__name__", name), ("instance", f"i{number}"), ("job", "ab"[number % 2]))
        value = 0.0
        for minute in range(int(rng.integers(0, 20)), 60):
            value = 0.0 if rng.random() < 0.05 else value + float(rng.random())
            odd = rng.choice([STALE, np.nan, np.inf]) if rng.random() < 0.03 else value
            rows.append((labels, Sample(minute * MINUTE + 1 + number, float(odd))))
    for number in range(5):
        labels = (("__name__", "native"), ("instance", f"i{number}"), ("job", "ab"[number % 2]))
        counts = np.zeros(3)
        for minute in range(60):
            counts = np.zeros(3) if rng.random() < 0.03 else counts + rng.integers(0, 3, 3) / 7
            if number == 4 and rng.random() < 0.1:
                rows.append((labels, Sample(minute * MINUTE, 1.0)))
                continue
            total = float(counts.sum())
            one = Histogram(1, total, total * 1.1, 0.001, 0.0, buckets_at(0, counts.tolist()))
            rows.append((labels, Sample(minute * MINUTE, 0.0, one)))
    return rows


def classic(rng: np.random.Generator) -> pa.Table:
    """Explicit buckets as OTLP sends them, and floats that go on where a bucket's series has gaps."""
    rows: list[dict[str, Any]] = []
    for number in range(4):
        labels = (("__name__", "wait"), ("instance", f"i{number}"), ("job", "ab"[number % 2]))
        counts = np.zeros(3, np.int64)
        for minute in range(60):
            counts = counts + rng.integers(0, 4, 3)
            if rng.random() < 0.2:
                continue
            rows.append({
                "labels": labels, "ms": minute * MINUTE, "type": "histogram",
                "chq_hist_counts": counts.tolist(), "chq_hist_bounds": [0.1, 0.5],
                "chq_hist_count": int(counts.sum()), "chq_hist_sum": float(counts.sum()) / 3,
            })  # fmt: skip
        bucket = (
            ("__name__", "wait_bucket"),
            ("instance", f"i{number}"),
            ("job", "ab"[number % 2]),
            ("le", "0.1"),
        )
        rows += [
            {"labels": bucket, "ms": minute * MINUTE + 30_000, "type": "counter", "value": float(7 * minute)}
            for minute in range(30, 60, 3)
        ]
    columns: dict[str, Any] = {
        "metric_name": [dict(row["labels"])["__name__"] for row in rows],
        "chq_tid": pa.array([streams.stream_id(row["labels"]) for row in rows], pa.int64()),
        "chq_timestamp": pa.array([row["ms"] for row in rows], pa.int64()),
        "chq_metric_type": [row["type"] for row in rows],
        "chq_object": pa.array([1] * len(rows), pa.int64()),
        "chq_position": pa.array(range(len(rows)), pa.int64()),
        "chq_series": [streams.labels_to_text(row["labels"]) for row in rows],
        "chq_value": pa.array([row.get("value") for row in rows], pa.float64()),
    }
    for name in ("chq_hist_counts", "chq_hist_bounds", "chq_hist_count", "chq_hist_sum"):
        columns[name] = pa.array([row.get(name) for row in rows], OPTIONAL[name])
    return pa.table(columns)


@pytest.fixture(scope="module", params=[1, 2])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    rng = np.random.default_rng(request.param)
    lake = Lake(tmp_path_factory.mktemp("shards"))
    rows = counters(rng)
    half = NOW // 2
    lake.write(sample_table([row for row in rows if row[1].time_ms < half]))
    lake.write(sample_table([row for row in rows if row[1].time_ms >= half]))
    lake.write(classic(rng))
    found = Both(lake, MetricScanner(lake.opener))
    found.plain(found.unit("1"))  # evaluation allows deeper recursion, which hypothesis must not see change
    return found


SELECTORS = st.sampled_from(
    [
        "requests_total", "level", 'requests_total{job="a"}', "native", 'native{instance!="i4"}',
        "wait_bucket", 'wait_bucket{le="0.1"}', "wait_count", "wait_sum", "wait",
        '{__name__=~"requests_total|level"}', '{__name__=~"wait.*"}', '{job="a"}', "nothing",
    ]
)  # fmt: skip
FUNCTIONS = st.sampled_from(
    [
        "rate", "increase", "delta", "irate", "idelta", "resets", "changes", "deriv", "sum_over_time",
        "avg_over_time", "max_over_time", "count_over_time", "last_over_time", "stddev_over_time",
        "mad_over_time", "ts_of_max_over_time",
    ]
)  # fmt: skip
SHIFTS = st.sampled_from(["", "", " offset 7m", " @ 1800", " @ end()"])


@st.composite
def parts(draw: st.DrawFn) -> str:
    selector, shift = draw(SELECTORS), draw(SHIFTS)
    kind = draw(st.integers(0, 5))
    if kind < 2:
        return f"{selector}{shift}"
    if kind == 2:
        return draw(st.sampled_from([
            f"quantile_over_time(0.3, {selector}[20m]{shift})",
            f"quantile_over_time(2, {selector}[20m]{shift})",
            f"predict_linear({selector}[30m]{shift}, -60)",
            f"double_exponential_smoothing({selector}[30m]{shift}, 0.5, 0.1)",
            f"double_exponential_smoothing({selector}[30m]{shift}, 5, 0.1)",
        ]))  # fmt: skip
    width = draw(st.sampled_from(["5m", "25m", "1h"]))
    return f"{draw(FUNCTIONS)}({selector}[{width}]{shift})"


@st.composite
def aggregated(draw: st.DrawFn) -> str:
    inner = draw(parts())
    around = draw(
        st.sampled_from(
            ["{}", "{}", "abs({})", "-{}", "histogram_count({})", "histogram_quantile(0.8, {})", "{} > 0.5",
             "histogram_avg({})", 'label_replace({}, "x", "$1", "instance", "i(.)")', "sort({})"]
        )
    )  # fmt: skip
    by = draw(st.sampled_from(["", " by (job)", " by (le)", " without (instance)", " by (__name__)"]))
    op = draw(
        st.sampled_from(
            ["sum", "sum", "avg", "min", "count", "stddev", "group", "topk{}(2, ", "bottomk{}(1, ",
             "limitk{}(3, ", "quantile{}(0.7, ", "limit_ratio{}(0.5, ", 'count_values{}("v", ']
        )
    )  # fmt: skip
    head = op.format(by) if "{}" in op else f"{op}{by}("
    return head + around.format(inner) + ")"


@st.composite
def expressions(draw: st.DrawFn) -> str:
    first = draw(aggregated())
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return f"{first} / on (job) {draw(aggregated())}"
    if kind == 1:
        return f"{first} or {draw(aggregated())}"
    return f"histogram_quantile(0.9, {first})" if kind == 2 else first


def test_shards_say_what_one_worker_says(both: Both) -> None:
    became: Counter[str] = Counter()

    @given(expressions(), st.sampled_from([2, 3, 5]), st.sampled_from([1, 1, 3]))
    @settings(max_examples=100, deadline=None)
    def check(text: str, shards: int, count: int) -> None:
        unit = both.unit(text, count)
        assert per_series(bind(parse(text), unit.start_ms, unit.end_ms, unit.step_ms)) is not None
        rest = both.sharded(unit, shards)
        became["sharded" if rest.given else "whole"] += 1
        if not rest.given:
            return
        expected, found = both.plain(unit), both.plain(rest)
        if isinstance(expected, MetricAnswer) and isinstance(found, MetricAnswer):
            assert without_report(found) == without_report(expected)
        else:
            assert found == expected

    check()
    assert became["sharded"] > became["whole"]


def without_report(answer: MetricAnswer) -> MetricAnswer:
    return msgspec.structs.replace(answer, report=UnitReport())


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        ("sum by (job) (rate(requests_total[30m]))", True),
        ("sum(rate(level[30m]))", True),  # every shard says that it may be no counter
        ("histogram_quantile(0.9, sum by (le) (rate(wait_bucket[30m])))", True),
        ("sum(rate(native[30m]))", True),
        ("histogram_count(sum(native))", True),
        ("topk(2, level)", True),
        # classic and native histograms in one selector
        ('count(rate({job="a", __name__!="wait_bucket"}[30m]))', False),
        ("sum(double_exponential_smoothing(level[30m], 5, 0.1))", False),  # an error
    ],
)
def test_these_are_put_together_from_shards(both: Both, text: str, goes: bool) -> None:
    rest = both.sharded(both.unit(text), 3)
    assert bool(rest.given) is goes
    assert (rest.segments == ()) is goes
    expected, found = both.plain(both.unit(text)), both.plain(rest)
    if isinstance(expected, MetricAnswer) and isinstance(found, MetricAnswer):
        assert without_report(found) == without_report(expected)
        assert found.series
    else:
        assert found == expected


def test_every_series_is_in_one_shard_with_all_that_may_become_one_with_it(both: Both) -> None:
    text = 'count by (le, instance) (count_over_time(wait_bucket{le="0.1"}[1h]))'
    rows = [both.scanner.shard(ShardUnit(both.unit(text), n, 3), Cancellation()) for n in range(3)]
    names = [labels for one in rows for labels in decode_vector(one.parts[0].vector).labels]
    assert len(names) == len(set(names)) == 4


@pytest.mark.parametrize("limit", [{"max_series": 4}, {"max_samples": 100}])
def test_limits_are_of_all_shards_together(both: Both, limit: dict[str, int]) -> None:
    unit = both.unit("sum(rate(requests_total[1h]))", **limit)
    rest = both.sharded(unit, 5)
    assert not rest.given
    assert "LimitExceededError" in str(both.plain(rest))


def engine_lake(folder: Path, workers: int) -> EngineLake:
    lake = EngineLake(folder, workers, SampleSliceSizes(at_least=10))
    times = np.arange(0, 3 * 60) * MINUTE
    lake.write(
        [
            (
                (("__name__", "m_total"), ("i", str(number))),
                times,
                np.cumsum(np.arange(len(times)) % (number + 2)) / 3,
            )
            for number in range(9)
        ]
    )
    return lake


def test_an_instant_query_uses_all_workers_and_says_the_same(tmp_path: Path) -> None:
    one, three = engine_lake(tmp_path / "one", 1), engine_lake(tmp_path / "three", 3)
    text, now = "sum(rate(m_total[2h]))", 3 * 60 * MINUTE - 1
    expected, found = one.ask(text, now, now), three.ask(text, now, now)
    assert (one.dispatcher.units, three.dispatcher.units) == (1, 4)
    assert found.series == expected.series
    assert found.rows_considered == expected.rows_considered
    assert found.segments_opened == expected.segments_opened


def test_a_missing_segment_is_told_once(tmp_path: Path) -> None:
    lake = engine_lake(tmp_path, 3)
    gone = lake.index.rows[1]
    (tmp_path / "lake" / gone.key).unlink()
    now = 3 * 60 * MINUTE - 1
    found = lake.ask("sum(rate(m_total[3h]))", now, now)
    assert lake.dispatcher.units == 4
    assert list(found.missing) == [gone.segment_id]
    assert len(found.series) == 1


def test_little_to_read_and_many_slices_are_not_cut_into_shards(tmp_path: Path) -> None:
    lake = engine_lake(tmp_path, 3)
    lake.ask("sum(m_total)", 5 * MINUTE, 5 * MINUTE)  # of 9 series
    cut = lake.dispatcher.units
    lake.ask("m_total", 5 * MINUTE, 5 * MINUTE)
    assert lake.dispatcher.units == cut + 1
    lake.ask("sum(rate(m_total[5m]))", 60 * MINUTE, 120 * MINUTE, MINUTE)
    assert lake.dispatcher.units > cut + 2


def test_explain_shows_the_shards(tmp_path: Path) -> None:
    lake = engine_lake(tmp_path, 3)

    async def explained() -> str:
        asked = PromQLRequest(ORG, 0, 150 * MINUTE)
        text = "sum(rate(m_total[2h])) / sum(m_total)"
        return lake.engine.explain(await lake.engine.prepare(lake.language, text, asked, is_explained=True))

    assert asyncio.run(explained()).splitlines()[-1] == "shards of series: 3, of rate(m_total[2h]), m_total"
