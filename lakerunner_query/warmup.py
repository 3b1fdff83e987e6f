"""The warm-up compiles every kernel of queries once, before the first query needs it.

`python -m lakerunner_query.warmup` evaluates every function, stage and aggregation over a few samples;
compiled kernels are kept on disk. Part of `make setup`, and of `lakerunner up` when needed. A worker runs
`preload` before it is ready: what a process does for the first time takes long, and no query needs to wait.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import QueryError
from lakerunner_query.histogram.batch_kernels import find_drops
from lakerunner_query.histogram.model import Histogram, buckets_at
from lakerunner_query.histogram.quantiles import plain_quantiles
from lakerunner_query.logql.frame import Category, LogFrame, of_texts
from lakerunner_query.logql.lang.aggregations import RANGE, VECTOR
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.logql.metrics.evaluate import evaluate as evaluate_logql
from lakerunner_query.logql.pipeline import Buckets as LineBuckets
from lakerunner_query.logql.pipeline import Demand, apply
from lakerunner_query.promql.context import Options, SourceAnswer
from lakerunner_query.promql.evaluate import combine_results, evaluate
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.functions import FUNCTIONS
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.protocol.answers import encode_metric_answer
from lakerunner_query.protocol.units import MetricUnit, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.traceql.tree import build_tree
from lakerunner_query.vectors.vector import Labels, Series, Steps
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_buckets import Buckets, columns_of_samples, over_buckets
from lakerunner_query.windows.samples import Samples
from lakerunner_query.worker.metrics.promql_units import MetricScanner
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.parquet.dictionary_kernels import add_codes, dictionary_page
from lakerunner_query.worker.parquet.page_kernels import deltas, pages_of
from lakerunner_query.worker.parquet.run_kernels import add_up, copy_runs, count_keys, count_rows
from lakerunner_query.worker.parquet.text_kernels import copy_texts, mark_texts, text_places
from lakerunner_query.worker.shared.render_kernels import whole_blocks
from lakerunner_query.worker.shared.render_samples import pairs, time_texts
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.kernel import count_compilations
from resources.lake import metric_values, series
from resources.lake.columns import CHQ_METRIC_TYPE, CHQ_TIMESTAMP

SERIES, SAMPLES, REHEARSAL_STEP_MS = 3, 40, 15_000
NS_PER_MS = 1_000_000
MINUTE_MS = 60_000
QUERIES = ("sum by (a) (rate(m[5m]))", 'rate(m{a=~"a[0-1]"}[5m])', "topk(1, m)")
DELTA = (CHQ_TIMESTAMP, metric_values.SCALED)


def rehearse() -> None:
    """Run queries over two segments of a few rows, from files to finished text, with caches of their own."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-rehearsal-") as scratch:
        folder = Path(scratch)
        segments = (segment(folder, "whole", 0), segment(folder, "doubles", SAMPLES * REHEARSAL_STEP_MS))
        scanner = MetricScanner(MetricOpener(SegmentsInPlace(folder), 1 << 20))
        for text in QUERIES:
            encode_metric_answer(scanner.run(unit(text, segments), Cancellation()))


def unit(text: str, segments: tuple[SegmentRef, ...]) -> MetricUnit:
    """Return a unit of ten minutes that begins inside of the first segment."""
    return MetricUnit(
        affinity="", text=text, start_ms=7 * MINUTE_MS, end_ms=17 * MINUTE_MS, step_ms=MINUTE_MS,
        first_ms=7 * MINUTE_MS, steps=11, lookback_ms=5 * MINUTE_MS, segments=segments,
    )  # fmt: skip


def segment(folder: Path, name: str, start_ms: int) -> SegmentRef:
    """Write a segment of counters: whole numbers or, by this name, doubles too."""
    times = np.tile(start_ms + np.arange(SAMPLES) * REHEARSAL_STEP_MS, SERIES)
    values = np.tile(np.arange(SAMPLES), SERIES)
    path = folder / name
    with pa.OSFile(str(path), "wb") as sink:
        table = _rows(times, values, has_doubles=name == "doubles")
        options = {"use_dictionary": False, "column_encoding": dict.fromkeys(DELTA, "DELTA_BINARY_PACKED")}
        with pq.ParquetWriter(sink, table.schema, compression="zstd", **options) as writer:
            writer.write_table(table)
            offset = sink.tell()
            encoded = series.encode(_series(start_ms))
            sink.write(encoded)
    end_ms = start_ms + SAMPLES * REHEARSAL_STEP_MS
    return SegmentRef(
        name, name, path.stat().st_size, start_ms * NS_PER_MS, end_ms * NS_PER_MS, offset, len(encoded),
        len(times),
    )  # fmt: skip


def _rows(times: Int64s, values: Int64s, *, has_doubles: bool) -> pa.Table:
    is_double = np.arange(len(times)) < (SAMPLES if has_doubles else 0)
    columns = {
        CHQ_TIMESTAMP: pa.array(times, pa.int64()),
        metric_values.SCALED: pa.array(values, pa.int64(), mask=is_double),
        metric_values.BASE: pa.array(np.zeros(len(times), np.int64)),
        metric_values.EXPONENT: pa.array(np.zeros(len(times), np.int32)),
        metric_values.DOUBLE: pa.array(values.astype(np.float64), mask=~is_double),
        CHQ_METRIC_TYPE: pa.array(["sum"] * len(times)),
    }
    fields = [pa.field(name, column.type, column.null_count > 0) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _series(start_ms: int) -> pa.Table:
    labels: list[Labels] = [(("__name__", "m"), ("a", f"a{number}")) for number in range(SERIES)]
    each = np.arange(SERIES)
    return series.build(
        labels,
        {
            "tid": each,
            "row": each * SAMPLES,
            "rows": np.full(SERIES, SAMPLES),
            "first_ms": np.full(SERIES, start_ms),
            "last_ms": np.full(SERIES, start_ms + (SAMPLES - 1) * REHEARSAL_STEP_MS),
            "base": np.zeros(SERIES, np.int64),
            "exponent": np.zeros(SERIES, np.int64),
        },
    )


SECOND_NS = 10**9
LINES = (
    '{"v": 1.5, "a": {"b": ["x", 2]}, "e": "\\u00e9"}',
    'v=1 msg="two words" e="a\\"b" ip=10.0.0.1',
    "GET /home 200 1ms",
    '{"_entry": "v=2", "k": "x"}',
    "broken {",
)
STAGES = (
    "| json", '| json v="v", b="a.b[0]"', "| logfmt", "| logfmt --strict", "| logfmt v, msg", "| unpack",
    "| pattern `<method> <path> <_>`", "| regexp `(?P<method>\\w+) (?P<path>\\S+)`", "| decolorize",
    "|> `GET <_>`", '|= ip("10.0.0.0/8")', '|= "v" != "w" |~ "v|w"', '| a="1" or v > 1', "| keep a",
    '| drop a="1"', '| label_format c="{{.a}}", d=a', '| line_format "{{.a}} {{__line__}}"',
)  # fmt: skip
COMMON_LOGQL = (
    'sum by (a) (count_over_time({a=~".+"} | json | __error__="" [5s]))',
    'sum(rate({a=~".+"} | logfmt | unwrap v | __error__="" [5s]))',
)
SKIPPED = '| __error__=""'


class FewLines:
    """Two streams, in writable arrays as memory has them, and in read-only ones as Parquet gives them."""

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        del from_ns, to_ns
        for writeable in (True, False):
            yield apply(_frame(writeable), query.stages, demand, 0)

    def buckets(
        self,
        query: LogQuery,
        by: tuple[str, ...],
        start_ns: int,
        width_ns: int,
        count: int,
        *,
        with_bytes: bool,
    ) -> LineBuckets | None:
        del query, by, start_ns, width_ns, count, with_bytes
        return None


def _frame(writeable: bool) -> LogFrame:
    rows = len(LINES) * 2
    times = np.arange(1, rows + 1, dtype=np.int64) * SECOND_NS
    times.flags.writeable = writeable
    labels = {"a": of_texts(pa.array(["1", "2"] * len(LINES)), Category.STREAM)}
    return LogFrame(times, pa.array(LINES * 2), labels, np.zeros(rows, np.int64), times)


def logql_texts() -> list[str]:
    """Return queries with every stage, every range and vector aggregation, and operators."""
    unwrapped = '{a=~".+"} | logfmt | unwrap v ' + SKIPPED + " [5s]"
    plain = '{a=~".+"}[5s]'
    found = [f'count_over_time({{a=~".+"}} {stage} {SKIPPED} [5s])' for stage in STAGES]
    for name, row in sorted(RANGE.items()):
        found += [f"{name}({'0.5, ' if row.takes_parameter else ''}{unwrapped})"] if row.of_numbers else []
    for name, op in sorted(VECTOR.items()):
        grouping = "" if op.grouping_fault else " by (a)"
        found.append(f"{name}{grouping} ({'1, ' if op.takes_count else ''}rate({plain}) * 0.5)")
    found += [
        f"sum(bytes_rate({plain})) + on () group_right bytes_over_time({plain})",
        f"rate({plain}) and rate({plain})",
    ]
    return [*found, f"rate({plain}) or vector(1)", f"absent_over_time({plain}) > 2"]


def run_pages() -> None:
    """Run the kernels that count and find rows in pages of their columns, and those that spell the counts."""
    page = np.frombuffer(bytes(12), np.uint8)
    times, keys, counts = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros((1, 1), np.int64)
    dictionary_page(page)
    pages_of(page, 1)
    deltas(page, 0, times)
    add_codes(page, 0, 1, keys)
    begin, offsets = np.zeros(2, np.int64), np.zeros(2, np.int32)
    text_places(np.frombuffer(bytes(4), np.uint8), 0, begin)
    mark_texts(page, begin, page, np.zeros(1, np.bool_))
    copy_texts(page, begin, np.zeros(1, np.int64), offsets)
    count_keys(keys, counts)
    count_rows(times, keys, 0, 1, 1, counts)
    whole_blocks(np.ones((1, 1)), np.ones((1, 1), np.bool_), pa.array(["1"]))


def run_logql(queries: Sequence[str]) -> int:
    """Evaluate each query at one time and over several, and return how many there were."""
    run_pages()
    for text in queries:
        expr = parse_expr(text)
        if isinstance(expr, LogQuery):
            raise TypeError(f"{text}: expected samples")
        if not any(row.is_instant_only and name in text for name, row in VECTOR.items()):
            evaluate_logql(expr, LogSteps(4 * SECOND_NS, SECOND_NS, 4), FewLines())
        evaluate_logql(expr, LogSteps(9 * SECOND_NS), FewLines())
    return len(queries)


MINUTES, STEP_MS = 20, 15_000
ARGUMENTS = {Type.VECTOR: "m", Type.MATRIX: "m[5m]", Type.SCALAR: "0.5"}
MORE = (
    "sum by (a) (m)", "avg(m)", "min(m)", "max(m)", "count(m)", "group(m)", "stddev(m)", "stdvar(m)",
    "topk(1, m)", "bottomk(1, m)", "quantile(0.5, m)", "count_values('v', m)", "limitk(1, m)",
    "limit_ratio(0.5, m)", "m + m", "m and m", "m * on (a) group_left () m", "-m", "m > 1",
    "rate(m[5m] smoothed)", "increase(m[5m] anchored)", "max_over_time(rate(m[1m])[5m:1m])",
    "histogram_quantile(0.9, sum by (le) (rate(m[5m])))",
)  # fmt: skip
COMMON = (
    "m", "sum by (a) (rate(m[5m]))", "topk(1, increase(m[5m]))", "max_over_time(m[5m])", "avg(m)",
    "histogram_quantile(0.9, sum by (le) (rate(m[5m])))",
)  # fmt: skip


class FewSeries:
    """Three series of counters with a reset each."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        del matchers
        times = np.arange(STEP_MS, MINUTES * 60_000, STEP_MS)
        inside = times[(times > from_ms) & (times <= to_ms)]
        values = (inside // STEP_MS % 50).astype(np.float64)
        labels: list[Labels] = [
            (("__name__", "m"), ("a", name), ("le", str(le))) for le, name in enumerate("xyz")
        ]
        offsets = np.arange(4, dtype=np.int64) * len(inside)
        return Series(labels, offsets, np.tile(inside, 3), np.tile(values, 3))

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        del function, matchers, grid
        return None


def promql_texts() -> list[str]:
    """Return queries with every function that takes numbers, and the rest of the language."""
    found = list(MORE)
    for name, function in FUNCTIONS.items():
        arguments = function.signature.arguments
        if all(kind in ARGUMENTS for kind in arguments):
            found.append(f"{name}({', '.join(ARGUMENTS[kind] for kind in arguments)})")
    return found


def run_promql(queries: Sequence[str]) -> int:
    """Return how many queries could be evaluated; those that fail compile nothing that anybody needs."""
    end_ms = MINUTES * 60_000
    steps = Steps(end_ms // 2, 60_000, 5)
    done = 0
    for text in queries:
        try:
            expr = bind(parse(text), steps.start_ms, steps.end_ms, steps.step_ms)
            combine_results([evaluate(expr, steps, FewSeries(), Options())])
            done += 1
        except QueryError:
            continue
    return done


def run_columns() -> None:
    """Run the kernels that read rollups, and columns that few segments have."""
    begin, end, to = np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1, np.int64)
    times = np.arange(2, dtype=np.int64)
    frozen = np.zeros(1, np.int64)
    frozen.flags.writeable = False
    for numbers in (begin, frozen):
        add_up(begin, numbers, begin.copy())
    for kind in (np.int64, np.float64, np.uint8, np.bool_):
        copy_runs(np.zeros(2, kind), begin, end, to, np.zeros(2, kind))
    samples = Samples.of_codes(np.zeros(4, np.int64), np.arange(1, 5) * 10_000, np.arange(4.0), 1)
    pairs(time_texts(times), np.array([0.5, 2.0]))
    find_drops(np.zeros((2, 4)))
    plain_quantiles(np.array([0.5]), [Histogram(count=1.0, positive=buckets_at(0, [1.0]))])
    for function in Function:
        over_buckets(function, Buckets(columns_of_samples(samples), 1), Grid(40_000, 10_000, 1, 40_000))


def run_traces() -> None:
    """Run the kernels of trees: a root and a child."""
    ids, above = np.array([1, 2], np.uint64), np.array([0, 1], np.uint64)
    build_tree(np.array([0, 2]), ids, above, above == 0, np.ones(2, np.int8))


def preload() -> None:
    """Load what nearly every query needs from disk into this process."""
    run_columns()
    run_traces()
    run_promql(COMMON)
    run_logql(COMMON_LOGQL)
    rehearse()


def warm() -> None:
    """Compile what is not on disk yet, and report kernels and seconds."""
    _report("rollups and columns", run_columns)
    _report("traces", run_traces)
    _report("logql", lambda: run_logql(logql_texts()))
    _report("promql", _run_all_promql)
    _report("segments", rehearse)


def _run_all_promql() -> None:
    if not run_promql(promql_texts()):
        raise RuntimeError("no expression could be evaluated")


def _report(words: str, work: Callable[[], object]) -> None:
    started = time.monotonic()
    with count_compilations() as compilations:
        work()
    print(f"queries: {words}: {compilations[0]} kernels in {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    warm()
