"""Kernels of windows, groups and histograms against NumPy: `python -m benchmarks.kernels.windows`.

1,000 series of an hour at 15 s, 60 windows of 5 min each. Each line is the best of five rounds on one core,
in processor time. NumPy finds windows by `searchsorted` and folds them by `reduceat` or running sums, which
round differently: it is the fastest library call, not one with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.kernels.worker import Case, best
from lakerunner_query.histogram.batch_kernels import extrapolation_factors, find_buckets, find_drops
from lakerunner_query.histogram.logarithm_kernels import exp2, log2
from lakerunner_query.vectors import group_kernels as groups
from lakerunner_query.windows import sums_kernels as plain
from lakerunner_query.windows.edge_kernels import edges, fill_offsets
from lakerunner_query.windows.extremes_kernels import ALL, extremes, growth, newest, times_of_extremes
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.ranks_kernels import ranks, smoothings, trends
from lakerunner_query.windows.rollup_buckets import Buckets, columns_of_samples
from lakerunner_query.windows.rollup_sum_kernels import merged_sums
from lakerunner_query.windows.samples import Samples
from lakerunner_query.windows.start_time_kernels import reaching, since_starts
from resources.arrays import Doubles, Flags, Int64s

SERIES, SAMPLES, STEP_MS, GROUPS = 1_000, 240, 15_000, 20
GRID = Grid(300_000, 54_000, 60, 300_000)
SHAPE = (SERIES, GRID.steps)
LAST = SAMPLES * STEP_MS


class Data:
    """Counters with resets, by series and time."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.series = np.repeat(np.arange(SERIES), SAMPLES)
        self.times = np.tile(np.arange(1, SAMPLES + 1) * STEP_MS, SERIES)
        self.numbers = (
            (rng.integers(0, 99, (SERIES, SAMPLES)).cumsum(axis=1) % 5000).ravel().astype(np.float64)
        )
        self.offsets = np.arange(SERIES + 1) * SAMPLES
        self.samples = Samples(self.offsets, self.times, self.numbers, are_real=True)
        self.values, self.states = np.zeros(SHAPE), np.zeros(SHAPE, np.int8)
        self.present = np.zeros(SHAPE, np.bool_)
        keys = self.series * (LAST * 2) + self.times
        self.keys = keys
        self.ends = GRID.first_end_ms + GRID.step_ms * np.arange(GRID.steps)

    def bounds(self) -> tuple[Int64s, Int64s]:
        """Rows [low, high) of each window."""
        base = np.arange(SERIES)[:, None] * (LAST * 2) + self.ends
        high = np.searchsorted(self.keys, base.ravel(), "right")
        return np.searchsorted(self.keys, base.ravel() - GRID.range_ms, "right"), high

    def pairs(self) -> Int64s:
        """Bounds as `reduceat` takes them; every other result counts."""
        low, high = self.bounds()
        return np.stack((low, np.minimum(high, len(self.keys) - 1)), 1).ravel()


def _factors(
    first: Int64s, last: Int64s, counted: Int64s, ends: Int64s, value: Doubles, grown: Doubles
) -> Doubles:
    sampled, start = (last - first) / 1000, (first - (ends - GRID.range_ms)) / 1000
    end, average = (ends - last) / 1000, (last - first) / 1000 / (counted - 1)
    start = np.where(start >= average * 1.1, average / 2, start)
    with np.errstate(all="ignore"):
        start = np.where((grown > 0) & (value >= 0), np.minimum(start, sampled * (value / grown)), start)
    return (sampled + start + np.where(end >= average * 1.1, average / 2, end)) / sampled


class Library:
    """NumPy calls that find all windows and fold them."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.folded = Buckets(columns_of_samples(data.samples), SERIES).folded

    def growth(self) -> None:
        low, high = self.data.bounds()
        drops = np.concatenate(
            ([0.0], np.where(self.data.numbers[1:] < self.data.numbers[:-1], self.data.numbers[:-1], 0.0))
        ).cumsum()
        grown = self.data.numbers[high - 1] - self.data.numbers[low] + drops[high - 1] - drops[low]
        ends = np.tile(self.data.ends, SERIES)
        grown * _factors(
            self.data.times[low], self.data.times[high - 1], high - low, ends, self.data.numbers[low], grown
        )

    def trends(self) -> None:
        low, high = self.data.bounds()
        x = self.data.times / 1e3
        sums = [
            np.concatenate(([0.0], part.cumsum()))
            for part in (x, self.data.numbers, x * self.data.numbers, x * x)
        ]
        sx, sy, sxy, sxx = (part[high] - part[low] for part in sums)
        (sxy - sx * sy / (high - low)) / (sxx - sx * sx / (high - low))

    def quantiles(self) -> None:
        low, _ = self.data.bounds()
        views = np.lib.stride_tricks.sliding_window_view(self.data.numbers, 20)
        np.quantile(views[np.minimum(low, len(views) - 1)], 0.5, axis=1)

    def medians_one_by_one(self) -> None:
        low, high = self.data.bounds()
        for begin, end in zip(low.tolist(), high.tolist(), strict=True):
            np.partition(self.data.numbers[begin:end], (end - begin) // 2)

    def smoothing(self) -> None:
        low, high = self.data.bounds()
        level, slope = self.data.numbers[low], self.data.numbers[low + 1] - self.data.numbers[low]
        before = np.zeros(len(low))
        for at in range(1, 20):
            slope = slope if at == 1 else 0.1 * (level - before) + 0.9 * slope
            before, level = (
                level,
                0.3 * self.data.numbers[np.minimum(low + at, high - 1)] + 0.7 * (level + slope),
            )

    def sums(self) -> None:
        np.add.reduceat(self.data.numbers, self.data.pairs())[::2]

    def variance(self) -> None:
        low, high = self.data.bounds()
        pairs, counts = self.data.pairs(), high - low
        mean = np.add.reduceat(self.data.numbers, pairs)[::2] / counts
        np.sqrt(np.add.reduceat(self.data.numbers * self.data.numbers, pairs)[::2] / counts - mean * mean)

    def merge(self) -> None:
        """The columns of a mean: count, sum, its loss, least, greatest, and the size that bounds rounding."""
        pairs = self.data.pairs()
        for column in (
            self.folded.counts,
            self.folded.sum,
            self.folded.sum_c,
            np.abs(self.folded.max) * self.folded.counts,
        ):
            np.add.reduceat(column, pairs)[::2]
        np.minimum.reduceat(self.folded.min, pairs)[::2]
        np.maximum.reduceat(self.folded.max, pairs)[::2]

    def whole(self) -> None:
        low, high = self.data.bounds()
        total = np.concatenate(([0.0], self.data.numbers.cumsum()))
        total[high] - total[low]

    def resets(self) -> None:
        low, high = self.data.bounds()
        drops = np.concatenate(([0], self.data.numbers[1:] < self.data.numbers[:-1])).cumsum()
        drops[high - 1] - drops[low]


def edge_cases() -> Iterator[Case]:
    d = Data()
    library = Library(d)
    windows, tail = GRID.windows, (d.values, d.states)
    rows = (d.offsets, d.times, d.numbers, windows)
    runs, room = d.samples.runs, np.zeros_like(d.offsets)
    yield "edges.fill_offsets", lambda: fill_offsets(d.series, d.times, room), lambda: (
        np.diff(d.series).min() >= 0 and np.diff(d.keys).min() > 0,
        np.searchsorted(d.series, np.arange(SERIES + 1)),
    )  # fmt: skip
    yield "edges.edges (resets)", lambda: edges(int(Function.RESETS), runs, windows, *tail), library.resets
    yield "edges.edges (rate)", lambda: edges(int(Function.RATE), runs, windows, *tail), library.growth
    yield "extremes.growth (rate)", lambda: growth(int(Function.RATE), *rows, *tail), library.growth
    yield (
        "extremes.newest",
        lambda: newest(d.offsets, d.times, d.numbers, d.times, ALL, windows, *tail),
        lambda: d.numbers[d.bounds()[1] - 1],
    )
    yield (
        "extremes.extremes",
        lambda: extremes(int(Function.MAX), *rows, *tail),
        lambda: np.maximum.reduceat(d.numbers, d.pairs())[::2],
    )
    yield (
        "extremes.times_of_extremes",
        lambda: times_of_extremes(True, *rows, *tail),
        lambda: (
            [
                d.numbers[low:high].argmax()
                for low, high in zip(*(each.tolist() for each in d.bounds()), strict=True)
            ]
        ),
    )


def sum_cases() -> Iterator[Case]:
    d = Data()
    library = Library(d)
    windows, tail = GRID.windows, (d.values, d.states)
    rows = (d.offsets, d.times, d.numbers, windows)
    yield "sums.sums (sum)", lambda: plain.sums(int(Function.SUM), *rows, *tail), library.sums
    yield "sums.sums (avg)", lambda: plain.sums(int(Function.AVG), *rows, *tail), library.sums
    yield "sums.sums (stddev)", lambda: plain.sums(int(Function.STDDEV), *rows, *tail), library.variance
    yield "sums.whole_sums", lambda: plain.whole_sums(False, *rows, d.values, d.present), library.whole
    yield (
        "sums.over_windows (sum)",
        lambda: plain.over_windows(plain.SUM, *rows, d.values, d.present),
        library.sums,
    )
    yield (
        "rollup_sums.merged_sums (avg)",
        lambda: merged_sums(int(Function.AVG), library.folded, windows, *tail),
        library.merge,
    )


def rank_cases() -> Iterator[Case]:
    d = Data()
    library = Library(d)
    windows, tail = GRID.windows, (d.values, d.states)
    rows = (d.offsets, d.times, d.numbers, windows)
    halves, no_origins = np.full(GRID.steps, 0.5), np.zeros(0, np.int64)
    starts, flags = np.zeros(len(d.times), np.int64), np.zeros(SERIES, np.bool_)
    yield "ranks.ranks (windows of one length)", lambda: ranks(*rows, halves, *tail), library.quantiles
    yield "ranks.ranks (any windows)", lambda: ranks(*rows, halves, *tail), library.medians_one_by_one
    yield (
        "ranks.trends",
        lambda: trends(*rows, no_origins, d.values, d.values.copy(), d.states),
        library.trends,
    )
    yield "ranks.smoothings", lambda: smoothings(*rows, halves, halves, *tail), library.smoothing
    yield "start_time.since_starts (rate)", lambda: since_starts(
        int(Function.RATE), d.offsets, d.times, d.numbers, starts, windows, *tail, flags
    ), library.growth  # fmt: skip
    yield "start_time.reaching (rate)", lambda: reaching(
        int(Function.RATE), True, 300_000, d.offsets, d.times, d.numbers, starts, windows, *tail
    ), library.growth  # fmt: skip


def group_cases() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    values, present = rng.random(SHAPE), rng.random(SHAPE) < 0.95
    codes = rng.integers(0, GROUPS, SERIES)

    def order() -> tuple[Int64s, Int64s]:
        found = np.argsort(codes, kind="stable")
        return found, np.searchsorted(codes[found], np.arange(GROUPS))

    def fold(ufunc: np.ufunc, numbers: Doubles | Flags, missing: float) -> Doubles:
        at, starts = order()
        chosen = numbers if numbers is present else np.where(present, numbers, missing)
        found: Doubles = ufunc.reduceat(chosen[at], starts, axis=0)
        return found

    def numpy_mean() -> None:
        fold(np.add, values, 0.0) / fold(np.add, present.astype(np.int64), 0.0)

    def numpy_variance() -> None:
        mean = fold(np.add, values, 0.0) / fold(np.add, present.astype(np.int64), 0.0)
        fold(np.add, (values - mean[codes]) ** 2, 0.0)

    yield (
        "group.any_of_code",
        lambda: groups.any_of_code(codes, present, GROUPS),
        lambda: fold(np.logical_or, present, 0.0),
    )
    yield (
        "group.count_of_code",
        lambda: groups.count_of_code(codes, present, GROUPS),
        lambda: fold(np.add, present.astype(np.int64), 0.0),
    )
    yield (
        "group.sum_of_code",
        lambda: groups.sum_of_code(codes, values, present, GROUPS),
        lambda: fold(np.add, values, 0.0),
    )
    yield "group.mean_of_code", lambda: groups.mean_of_code(codes, values, present, GROUPS), numpy_mean
    yield (
        "group.extreme_of_code",
        lambda: groups.extreme_of_code(codes, values, present, GROUPS, True),
        lambda: fold(np.maximum, values, -np.inf),
    )
    yield (
        "group.variance_of_code",
        lambda: groups.variance_of_code(codes, values, present, GROUPS),
        numpy_variance,
    )


def choice_cases() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    values, present = rng.random(SHAPE), rng.random(SHAPE) < 0.95
    codes = rng.integers(0, GROUPS, SERIES)
    limits, halves = np.full(GRID.steps, 5), np.full(GRID.steps, 0.5)
    rows = np.argsort(codes, kind="stable")
    begins = np.searchsorted(codes[rows], np.arange(GROUPS))
    bounds = np.append(begins, SERIES)

    def numpy_best() -> None:
        for at, end in zip(begins.tolist(), bounds[1:].tolist(), strict=True):
            np.argpartition(np.where(present[rows[at:end]], values[rows[at:end]], -np.inf), -5, axis=0)[-5:]

    def numpy_first() -> None:
        for at, end in zip(begins.tolist(), bounds[1:].tolist(), strict=True):
            mine = present[rows[at:end]]
            mine & (mine.cumsum(axis=0) <= limits)

    def numpy_quantile() -> None:
        for at, end in zip(begins.tolist(), bounds[1:].tolist(), strict=True):
            np.nanquantile(np.where(present[rows[at:end]], values[rows[at:end]], np.nan), 0.5, axis=0)

    yield "group.best_of_group", lambda: (
        groups.best_of_group(rows, bounds, values, present, limits, True)
    ), numpy_best  # fmt: skip
    yield "group.first_of_group", lambda: groups.first_of_group(rows, bounds, present, limits), numpy_first
    yield "group.quantile_of_group", lambda: (
        groups.quantile_of_group(rows, bounds, values, present, halves)
    ), numpy_quantile  # fmt: skip


def histogram_cases() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 9, (SAMPLES, 40)).cumsum(axis=0).astype(np.float64)
    count = 1_000
    first = np.sort(rng.integers(0, 100_000, count))
    last, ends, counted = first + 200_000, first + 250_000, np.full(count, 14)
    value, grown = rng.random(count), rng.random(count) * 9
    sizes = np.full(count, 40)
    offsets = np.concatenate(([0], sizes.cumsum()))
    upper = np.tile(np.exp2(np.arange(40) / 4), count)
    lower, counts = upper / 2**0.25, rng.integers(0, 9, count * 40).astype(np.float64)
    totals = np.zeros((count, 3))
    totals[:, 0] = np.add.reduceat(counts, offsets[:-1])
    halves, found, kinds = np.full(count, 0.5), np.empty((count, 3)), np.empty(count, np.int8)

    def numpy_quantiles() -> None:
        reached = counts.reshape(count, 40).cumsum(axis=1)
        place = (reached >= 0.5 * totals[:, :1]).argmax(axis=1)
        at = np.arange(count)
        lower.reshape(count, 40)[at, place], upper.reshape(count, 40)[at, place], reached[at, place]

    yield (
        "batch.find_drops",
        lambda: find_drops(numbers),
        lambda: (np.delete(numbers[1:], 1, axis=1) < np.delete(numbers[:-1], 1, axis=1)).any(axis=1),
    )
    yield "batch.extrapolation_factors", lambda: (
        extrapolation_factors(first, last, counted, ends, GRID.range_ms, True, value, grown)
    ), lambda: _factors(first, last, counted, ends, value, grown)  # fmt: skip
    yield "batch.find_buckets", lambda: (
        find_buckets(halves, totals, offsets, lower, upper, counts, found, kinds)
    ), numpy_quantiles  # fmt: skip
    yield "logarithm.log2", lambda: log2(upper), lambda: np.log2(upper)
    yield "logarithm.exp2", lambda: exp2(lower), lambda: np.exp2(lower)


def main() -> None:
    for cases in (edge_cases, sum_cases, rank_cases, group_cases, choice_cases, histogram_cases):
        for name, ours, library in cases():
            mine, theirs = best(ours), best(library)
            print(
                f"{name:<34} {mine * 1e6:9.0f} us {theirs * 1e6:9.0f} us  {theirs / mine:5.1f}x", flush=True
            )


if __name__ == "__main__":
    main()
