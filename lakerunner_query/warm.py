"""Compiles the kernels of metric queries once, so that the first query does not wait for them.

`python -m lakerunner_query.warm` evaluates every function and aggregation over a few samples, two at a time;
what that compiles is kept on disk for all later processes. Part of `make setup`, and of `lakerunner up` when
needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from lakerunner_query import warm_logs
from lakerunner_query.errors import QueryError
from lakerunner_query.histogram.kernels import any_fell
from lakerunner_query.histogram.model import Histogram, buckets_at
from lakerunner_query.histogram.quantiles import plain_quantiles
from lakerunner_query.promql.context import Answered, Options
from lakerunner_query.promql.evaluate import evaluate, settle
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.functions import SIGNATURES
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.rehearsal import rehearse
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Series, Steps
from lakerunner_query.windows.functions import Function, Grid
from lakerunner_query.windows.rollup_buckets import Buckets, of_samples, over_buckets
from lakerunner_query.windows.samples import Samples
from lakerunner_query.worker.logs.counts import add_up
from lakerunner_query.worker.parquet.page_kernels import copy_runs
from lakerunner_query.worker.shared.render import pairs, time_texts

PROCESSES = 2
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


class Few:
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

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> Answered | None:
        del function, matchers, grid
        return None


def texts() -> list[str]:
    """Every function that takes numbers, and the rest of the language."""
    found = list(MORE)
    for name, signature in SIGNATURES.items():
        if all(kind in ARGUMENTS for kind in signature.arguments):
            found.append(f"{name}({', '.join(ARGUMENTS[kind] for kind in signature.arguments)})")
    return found


def run(part: list[str]) -> int:
    """How many of these could be evaluated; what cannot compiles nothing that anybody needs."""
    end_ms = MINUTES * 60_000
    steps = Steps(end_ms // 2, 60_000, 5)
    done = 0
    for text in part:
        try:
            expr = bind(parse(text), steps.start_ms, steps.end_ms, steps.step_ms)
            settle([evaluate(expr, steps, Few(), Options())])
            done += 1
        except QueryError:
            continue
    return done


def rows() -> None:
    """What reads rollups, and columns that few segments have."""
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
    any_fell(np.zeros((2, 4)))
    plain_quantiles(np.array([0.5]), [Histogram(count=1.0, positive=buckets_at(0, [1.0]))])
    for function in Function:
        over_buckets(function, Buckets(of_samples(samples), 1), Grid(40_000, 10_000, 1, 40_000))


def preload() -> None:
    """What nearly every query needs, from disk into this process; the first query would wait for it."""
    rows()
    run(list(COMMON))
    warm_logs.run(warm_logs.COMMON)
    rehearse()


def warm() -> float:
    """Compile what is not kept yet; the seconds it took."""
    started = time.monotonic()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        other = pool.submit(rows)
        logs = pool.submit(warm_logs.run, warm_logs.texts())
        done = sum(pool.map(run, _parts(texts())))
        other.result()
        logs.result()
        pool.submit(rehearse).result()
    if not done:
        raise RuntimeError("no expression could be evaluated")
    return time.monotonic() - started


def _parts(all_texts: list[str]) -> Iterator[list[str]]:
    for number in range(PROCESSES):
        yield all_texts[number::PROCESSES]


if __name__ == "__main__":
    print(f"query kernels compiled in {warm():.1f} s")
