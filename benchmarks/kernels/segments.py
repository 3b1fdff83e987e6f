"""Kernels of segments and rollups against NumPy and Arrow: `python -m benchmarks.kernels.segments`.

Each line is the best of several rounds on one core, of calls with the same result. A kernel that is not at
least a fifth faster has no business being one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.rollup import bucket_kernels as buckets
from lakerunner_assets.rollup import histogram_kernels as histogram
from lakerunner_assets.segments import segment_kernels as writing
from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.merge import merge_kernels as merging
from resources.lake.ddsketch_kernels import GAMMA, SLOTS, Bins, add, clear, slot_of, sort_slots
from resources.lake.metric_values import POWERS
from resources.lake.tokens import tokens

ROWS = 200_000
ROUNDS = 5
Case = tuple[str, Callable[[], object], Callable[[], object]]
"""Name, kernel, library."""


def cases() -> Iterator[Case]:
    random = np.random.default_rng(7)
    yield from _sorting(random)
    yield from _merging(random)
    yield from _values(random)
    yield from _buckets(random)
    yield from _histograms(random)
    yield from _texts(random)


def _sorting(random: np.random.Generator) -> Iterator[Case]:
    keys = [random.integers(0, 1 << 42, ROWS), random.integers(0, 500, ROWS)]
    unsigned = [key.astype(np.uint64) for key in keys]

    def ours() -> object:
        order = np.arange(ROWS)
        for key in unsigned:
            order = writing.radix_sorted(order, key)
        return order

    yield "radix_sorted, two keys | numpy.lexsort", ours, lambda: np.lexsort(keys)
    major, minor = np.repeat(np.arange(20), ROWS // 20), np.arange(ROWS)

    def ordered() -> object:
        same, falls = major[1:] == major[:-1], minor[1:] < minor[:-1]
        return not ((major[1:] < major[:-1]) | (same & falls)).any()

    yield "is_ordered | numpy comparisons", lambda: writing.is_ordered(major, minor), ordered


def _merging(random: np.random.Generator) -> Iterator[Case]:
    runs, size = 16, ROWS // 16
    parts = []
    for run in range(runs):
        slots, lines = random.integers(0, 12 * 40, size), random.integers(0, 200, size)
        times = random.integers(0, 1 << 42, size)
        order = np.lexsort((times, lines, slots))
        words = [slots[order], lines[order], times[order], np.full(size, run), order]
        parts.append(np.stack(words, axis=1))
    keys = np.ascontiguousarray(np.concatenate(parts))
    borders = np.arange(runs + 1) * size
    columns = [np.ascontiguousarray(keys[:, word]) for word in range(4, -1, -1)]

    def sorted_and_compared() -> object:
        order = np.lexsort(columns)
        following = keys[order]
        return order, (following[1:] == following[:-1]).all(axis=1)

    yield (
        "merge_runs, 16 runs of log keys | numpy.lexsort and comparison",
        lambda: merging.merge_runs(keys, borders, keys[:0]),
        sorted_and_compared,
    )
    ordered = keys[np.lexsort(columns)]

    def disorder() -> object:
        before, after = ordered[:-1], ordered[1:]
        different = before != after
        first = np.argmax(different, axis=1)
        rows = np.arange(len(first))
        return (after[rows, first] < before[rows, first]).any()

    yield (
        "first_disorder | numpy comparisons",
        lambda: merging.first_disorder(ordered, ordered[:0]),
        disorder,
    )
    codes = np.repeat(np.arange(ROWS // 40, dtype=np.int32), 40)
    yield (
        "run_starts | numpy.flatnonzero",
        lambda: merging.run_starts(codes),
        lambda: np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1]))),
    )
    known = np.sort(random.integers(0, 1 << 62, 300))
    ids = np.repeat(known[random.integers(0, 300, ROWS // 20)], 20)

    def places() -> object:
        found = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[found] == ids, found, -1).astype(np.int32)

    yield (
        "places_of, 300 streams in runs of 20 | numpy.searchsorted",
        lambda: merging.places_of(ids, known),
        places,
    )
    streams = random.integers(0, 300, ROWS).astype(np.int32)
    times = random.integers(0, 1 << 42, ROWS)
    facts = np.zeros((300, 3), np.int64)

    def grouped() -> object:
        table = pa.table({"code": streams, "time": times}).group_by("code", use_threads=False)
        return table.aggregate([("time", "count"), ("time", "min"), ("time", "max")])

    yield "add_facts, 300 streams | Arrow group_by", lambda: merging.add_facts(facts, streams, times), grouped
    sets, labels = 20_000, 6
    offsets = np.arange(sets + 1) * labels
    names = np.tile(np.arange(labels, dtype=np.int32), sets)
    values = random.integers(0, 5000, sets * labels).astype(np.int32)
    hashes = random.integers(0, 1 << 62, 5000)

    def hashed() -> object:
        pairs = hashes[names].view(np.uint64) * np.uint64(31) ^ hashes[values].view(np.uint64)
        return np.bitwise_xor.reduceat(pairs * np.uint64(0x9E3779B97F4A7C15), offsets[:-1])

    yield (
        "label_hashes, 20,000 sets | numpy.bitwise_xor.reduceat (a weaker hash)",
        lambda: merging.label_hashes(offsets, names, values, hashes, hashes),
        hashed,
    )


def _values(random: np.random.Generator) -> Iterator[Case]:
    codes = np.repeat(np.arange(ROWS // 200, dtype=np.int32), 200)
    numbers = np.round(random.uniform(0, 1000, ROWS), 2)
    missing, order = np.zeros(ROWS, np.bool_), np.arange(ROWS)
    series = len(codes) // 200

    def digits() -> object:
        needed = np.full(ROWS, len(POWERS))
        for places in range(len(POWERS) - 1, -1, -1):
            scaled = np.rint(numbers * POWERS[places])
            needed[(np.abs(scaled) <= 2.0**53) & (scaled / POWERS[places] == numbers)] = places
        return np.bincount(codes * (len(POWERS) + 1) + needed, minlength=series * (len(POWERS) + 1))

    yield (
        "needed_digits | numpy, a pass per digit",
        lambda: writing.needed_digits(numbers, missing, codes, order, series, POWERS),
        digits,
    )
    fixed = np.full(series, 2)
    hundreds = POWERS[2]

    def scaled() -> object:
        whole = np.rint(numbers * hundreds)
        exact = (np.abs(whole) <= 2.0**53) & (whole / hundreds == numbers)
        integers = whole.astype(np.int64)
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        jumps = integers[starts] - np.concatenate(([0], integers[starts[1:] - 1]))
        return integers - np.cumsum(jumps)[codes], exact

    def ours() -> object:
        base, started = np.zeros(series, np.int64), np.zeros(series, np.bool_)
        return writing.scale(numbers, missing, codes, order, fixed, POWERS, True, base, started, 0)

    yield "scale | numpy, one exponent for all series", ours, scaled
    times = random.integers(0, 1 << 42, ROWS)
    names, tids = codes // 10, codes.astype(np.int64)

    def grouped() -> object:
        columns = {"code": codes, "ms": times, "ns": times, "tid": tids, "name": names}
        wanted = [("ms", "count"), *((name, each) for name in columns for each in ("min", "max"))]
        return pa.table(columns).group_by("code", use_threads=False).aggregate(wanted)

    yield (
        "series_facts | Arrow group_by",
        lambda: writing.series_facts(codes, tids, names, times, times, series),
        grouped,
    )


def _buckets(random: np.random.Generator) -> Iterator[Case]:
    codes = np.repeat(np.arange(ROWS // 200, dtype=np.int32), 200)
    times = np.tile(np.arange(200) * 1000 + 1, ROWS // 200)
    values = random.uniform(0, 1000, ROWS)
    kinds = np.full(ROWS, buckets.REAL, np.uint8)
    end = int(times.max())
    found = buckets.buckets_of(codes, times, times, kinds, 0, end, 10_000)

    def cut() -> object:
        ends = (times - 1) // 10_000 * 10_000 + 10_000
        border = (codes[1:] != codes[:-1]) | (ends[1:] != ends[:-1])
        starts = np.flatnonzero(np.concatenate(([True], border)))
        twice = (codes[1:] == codes[:-1]) & (times[1:] == times[:-1])
        return starts, ends[starts], np.flatnonzero((times > 0) & (times <= end)), twice.any()

    yield (
        "buckets_of | numpy comparisons",
        lambda: buckets.buckets_of(codes, times, times, kinds, 0, end, 10_000),
        cut,
    )
    into = buckets.statistics(len(found.ends_ms))

    def summed() -> object:
        starts, behind = found.starts[:-1], found.starts[1:]
        counts = behind - starts
        sums, least, most = (f.reduceat(values, starts) for f in (np.add, np.minimum, np.maximum))
        delta = values - np.repeat(sums / counts, counts)
        drops = np.concatenate(([0.0], np.where(values[1:] < values[:-1], values[:-1], 0.0)))
        drops[starts] = 0
        changes = np.concatenate(([False], values[1:] != values[:-1]))
        changes[starts] = False
        return (
            sums, least, most, values[starts], values[behind - 1], values[np.maximum(behind - 2, starts)],
            times[starts], times[behind - 1], np.add.reduceat(drops, starts),
            np.add.reduceat(drops > 0, starts), np.add.reduceat(changes, starts),
            np.add.reduceat(delta * delta, starts),
        )  # fmt: skip

    yield (
        "summarise, 10 samples a bucket | numpy reduceat, sums not compensated",
        lambda: buckets.summarise(values, times, kinds, found, into),
        summed,
    )
    bins = Bins(np.zeros(SLOTS), np.empty(SLOTS, np.int64), np.zeros(1, np.int64))
    add_all, log_gamma = _binning(), math.log(GAMMA)

    def counted() -> object:
        indices = np.ceil(np.log(np.abs(values)) / log_gamma).astype(np.int64)
        return np.unique(indices, return_counts=True)

    yield "bins of a sketch, 200,000 values | numpy.unique", lambda: add_all(values, bins), counted


def _histograms(random: np.random.Generator) -> Iterator[Case]:
    count, width, share = 50_000, 12, 10
    numbers = np.cumsum(random.integers(0, 3, (count // share, share, width)), axis=1).astype(np.float64)
    counted = numbers.reshape(count, width)
    zeros, flags = np.zeros(count), np.ones(count, np.uint8)
    start = np.zeros((histogram.LISTS, count), np.int64)
    length = np.zeros((histogram.LISTS, count), np.int64)
    start[histogram.COUNTS] = np.arange(count) * width
    length[histogram.COUNTS] = width
    views = histogram.Histograms(
        np.full(count, histogram.EXPLICIT, np.int32), zeros, zeros, counted.sum(axis=1), zeros, flags,
        np.zeros((2, count), np.int64), start, length, counted.ravel(),
    )  # fmt: skip
    each, starts = np.arange(count), np.arange(count // share + 1) * share
    items = histogram.Items(each, each, each, np.zeros(count, np.int64), np.zeros(count, np.uint8), starts)
    mixed = np.zeros(count // share, np.uint8)
    found = histogram.HistogramFold(
        np.zeros(len(mixed), np.int64),
        mixed.copy(),
        np.zeros((2, len(mixed)), np.int64),
        np.zeros((histogram.LISTS, len(mixed)), np.int64),
    )

    def ours() -> object:
        histogram.fold(views, items, mixed, found)
        lengths = np.zeros((histogram.LISTS, len(mixed)), np.int64)
        begins = lengths.copy()
        begins[histogram.COUNTS], lengths[histogram.COUNTS] = np.arange(len(mixed)) * width, width
        room = [np.zeros(len(mixed)) for _ in range(4)]
        schema, has = np.zeros(len(mixed), np.int32), np.zeros(len(mixed), np.uint8)
        sums = histogram.Histograms(
            schema, *room, has, np.zeros((2, 0), np.int64), begins, lengths, np.zeros(width * len(mixed)),
        )  # fmt: skip
        histogram.add(views, items, np.arange(len(mixed)), found, sums)
        return sums

    def library() -> object:
        falls = np.concatenate(([False], (counted[1:] < counted[:-1]).any(axis=1)))
        falls[starts[:-1]] = False
        return np.add.reduceat(counted, starts[:-1], axis=0), np.add.reduceat(falls, starts[:-1])

    yield "fold and add, 50,000 histograms | numpy reduceat, one layout only", ours, library


def _binning() -> Callable[[np.ndarray, Bins], None]:
    from numba import njit

    @njit
    def add_all(values: np.ndarray, bins: Bins) -> None:
        for value in values:
            add(bins, slot_of(value), 1.0)
        sort_slots(bins)
        clear(bins)

    return add_all


def _texts(random: np.random.Generator) -> Iterator[Case]:
    codes = random.integers(0, 5000, ROWS).astype(np.int32)

    def flagged() -> object:
        used = np.zeros(5000, np.bool_)
        used[codes] = True
        return used

    yield "used_codes | numpy assignment", lambda: token_bloom.used_codes(codes, 5000), flagged
    lines = [f"GET /api/v1/users/{n} took {n % 97} ms for tenant-{n % 13}" for n in range(ROWS // 10)]
    column = pa.array(lines)
    yield (
        "token bloom of 20,000 lines | Arrow split_pattern_regex, without hashing",
        lambda: token_bloom.build([column]),
        lambda: pc.unique(pc.split_pattern_regex(column, "[^A-Za-z0-9_]+").flatten()),
    )
    yield (
        "token bloom of 20,000 lines | Python's re, without hashing",
        lambda: token_bloom.build([column]),
        lambda: {word for line in lines for word in tokens(line)},
    )


def best(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest round, after one that compiles."""
    call()
    spent = []
    for _ in range(ROUNDS):
        started = time.process_time()
        call()
        spent.append(time.process_time() - started)
    return min(spent)


def main() -> None:
    pa.set_cpu_count(1)
    for name, ours, library in cases():
        mine, theirs = best(ours), best(library)
        print(
            f"{mine * 1e3:9.2f} ms  {theirs * 1e3:9.2f} ms  {theirs / max(mine, 1e-9):6.1f} times  {name}",
            flush=True,
        )


if __name__ == "__main__":
    main()
