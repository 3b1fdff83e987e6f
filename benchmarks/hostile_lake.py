"""Data for hostile queries: usual series and lines, and some that nobody should have.

digits{d="111…"}           labels of 5,000 digits
many{n="0"} … {n="1999"}   many series of one name
wide                       a histogram with 100,000 buckets
tall_bucket{le="…"}        a classic one with 10,000
{app="hostile"}            lines of up to a megabyte: digits, brackets, quotes, backslashes
{app="keys"}               JSON objects of 20,000 keys
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.logql.against_data import SPAN_NS, START_NS, Line, generated
from benchmarks.promql.fuzz_data import BASE_MS, random_data
from benchmarks.promql.samples import Sampled, labels_of
from benchmarks.small_lake import SmallLake
from lakerunner_query.histogram.model import CUSTOM, Histogram, buckets_at

WIDE, TALL, MANY, KEYS = 100_000, 10_000, 2_000, 20_000
MEGABYTE = 1_000_000


def hostile_lake(folder: Path) -> SmallLake:
    return SmallLake(folder, 1, [*random_data(1).series, *_series()], [*generated(1, 300), *_lines()])


def _series() -> Iterator[Sampled]:
    times = BASE_MS + 7 + np.arange(0, 600_000, 30_000, dtype=np.int64)
    for digit in "123":
        yield Sampled(labels_of("digits", d=digit * 5_000), times, np.ones(len(times)))
    for number in range(MANY):
        yield Sampled(labels_of("many", n=str(number)), times, np.arange(len(times)) + float(number))
    for number in range(TALL):
        bound = "+Inf" if number == TALL - 1 else str(number)
        counts = np.arange(1, 4) * float(number)
        yield Sampled(labels_of("tall_bucket", le=bound), times[-3:], counts)
    bounds = tuple(np.arange(1, WIDE, dtype=np.float64).tolist())
    wide = [
        Histogram(
            CUSTOM,
            count=float(WIDE * n),
            sum=1e9 * n,
            bounds=bounds,
            positive=buckets_at(0, np.full(WIDE, float(n))),
        )
        for n in (1, 2)
    ]
    yield Sampled(labels_of("wide"), times[-2:], np.zeros(2), tuple(wide))


def _lines() -> Iterator[Line]:
    texts = (
        "a" * MEGABYTE, "1" * MEGABYTE, "x" * MEGABYTE + "y", "[" * MEGABYTE, '{"a":' * 200_000,
        '"' * MEGABYTE, "\\" * MEGABYTE, 'a="' * 300_000, "a=b " * 250_000, "k=" * 400_000,
        "1." * 500_000, "::" * 400_000,
        "\x1b[31m" * 200_000, "e\u0301" * 300_000, '{"a":"' + "\\u00e9" * 160_000 + '"}', " " * MEGABYTE,
    )  # fmt: skip
    for number, text in enumerate(texts):
        yield Line((("app", "hostile"),), START_NS + SPAN_NS // 20 * (number + 1), text)
    for number in range(3):
        keys = {f"key{number}_{at}": at for at in range(KEYS)}
        yield Line((("app", "keys"),), START_NS + SPAN_NS // 5 * (number + 1), json.dumps(keys))
