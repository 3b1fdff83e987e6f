"""Random series against the slow oracle, and rollups of rollups against rollups of samples."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rollup import oracle
from tests.support.rollup.cases import (
    HOUR_MS,
    NOON,
    Found,
    assert_as_defined,
    content,
    paths,
    rolled,
    row,
    sample_segment,
)
from tests.support.segments.metric_tables import OTHER_NAN, STALE, Row, double, plain

ODD = [double(STALE), double(OTHER_NAN), float("inf"), float("-inf"), -0.0, 0.0, 1e100, 0.1 + 0.2]
SPAN_MS = 360_000


def value(rng: np.random.Generator, kind: str, previous: float) -> float:
    if rng.random() < 0.08:
        return float("nan") if rng.random() < 0.1 else ODD[rng.integers(0, len(ODD) if kind == "odd" else 1)]
    if kind == "counter":
        base = previous if np.isfinite(previous) else 0.0
        return 0.0 if rng.random() < 0.1 else base + float(rng.integers(0, 50))
    if kind == "same":
        return 4.5
    return float(np.round(rng.normal(10, 5), int(rng.integers(0, 4)))) if kind == "gauge" else rng.normal()


def histogram(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    counts = rng.integers(0, 9, 4)
    common = {"chq_hist_sum": float(counts.sum()), "chq_metric_type": "histogram"}
    if rng.random() < 0.1:
        common["chq_hist_sum"] = None
    bounds = [0.5, 1.0, 2.0] if rng.random() < 0.95 else [0.5, 1.0, 4.0]
    if kind == "explicit":
        return common | {"chq_hist_count": int(counts.sum()), "chq_hist_bounds": bounds,
                         "chq_hist_counts": counts.tolist()}  # fmt: skip
    width = rng.integers(0, 4, 2)
    sides = {
        f"chq_hist_{name}_{what}": cell
        for name, size in zip(("positive", "negative"), width, strict=True)
        if size
        for what, cell in (("offset", int(rng.integers(-3, 3))), ("counts", counts[:size].tolist()))
    }
    found = common | sides | {"chq_hist_zero_count": int(rng.integers(0, 3)), "chq_hist_zero_threshold": 0.0}
    if kind == "custom":
        return found | {
            "chq_hist_schema": -53,
            "chq_hist_bounds": bounds,
            "chq_hist_count": int(counts.sum()),
        }
    schema = 3 if rng.random() < 0.95 else 2
    return found | {"chq_hist_schema": schema, "chq_hist_count_float": float(counts.sum()) + 0.5}


KINDS = ("counter", "gauge", "noise", "odd", "same", "explicit", "exponential", "custom", "any")


def random_rows(rng: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for number in range(int(rng.integers(1, 5))):
        kind = KINDS[rng.integers(0, len(KINDS))]
        labels = {"__name__": f"m{number % 2}", "instance": str(number)}
        step = int(rng.choice([1_000, 5_000, 15_000]))
        times = np.arange(int(rng.integers(0, step)), SPAN_MS, step)
        times = times[rng.random(len(times)) < 0.8] - 30_000 * int(rng.integers(0, 2))
        times = np.sort(np.concatenate((times, times[rng.random(len(times)) < 0.1])))  # some twice
        temporality = str(rng.choice(["delta", "cumulative"]))
        previous = 0.0
        for ms in times.tolist():
            word = temporality if rng.random() < 0.97 else None
            more: dict[str, Any] = {"metric_temporality": word, "chq_object": int(rng.integers(1, 4))}
            if rng.random() < 0.2:
                more["chq_tsns"] = (NOON + ms) * 1_000_000 + int(rng.integers(0, 3))
            chosen = str(rng.choice(KINDS[:-1])) if kind == "any" else kind
            number_sent: float | None = None
            if chosen in ("explicit", "exponential", "custom"):
                more |= histogram(rng, chosen)
                if rng.random() < 0.05:
                    number_sent = double(STALE)
            else:
                number_sent = previous = value(rng, chosen, previous)
            rows.append(row(len(rows), ms, number_sent, labels, **more))
    return rows


def grouped(rng: np.random.Generator, folder: Path, rows: list[Row]) -> list[Path]:
    """The rows over several segments, by chance."""
    group = rng.integers(0, 3, len(rows))
    chosen = [[each for each, own in zip(rows, group, strict=True) if own == which] for which in range(3)]
    return [sample_segment(folder, f"s{n}", part) for n, part in enumerate(chosen) if part]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1 << 16, 64 << 20]))
def test_every_way_up_ends_in_what_the_definitions_say(seed: int, memory_bytes: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng)
    folder = Path(mkdtemp(prefix="rollup"))
    try:
        sources = grouped(rng, folder, rows)
        direct = {
            width: rolled(folder, sources, 0, width, memory_bytes=memory_bytes, name="direct")
            for width in (10_000, 60_000, 300_000)
        }
        for width, parts in direct.items():
            wanted = oracle.roll(rows, width, NOON, NOON + HOUR_MS)
            assert_as_defined(content(parts), wanted)
        minutes = rolled(folder, paths(direct[10_000]), 10_000, 60_000, memory_bytes=memory_bytes)
        assert_as_defined(content(minutes), oracle.roll(rows, 60_000, NOON, NOON + HOUR_MS))
        five = rolled(folder, paths(minutes), 60_000, 300_000, memory_bytes=memory_bytes)
        assert_as_defined(content(five), oracle.roll(rows, 300_000, NOON, NOON + HOUR_MS))
    finally:
        shutil.rmtree(folder)


def bytes_of(path: Path) -> bytes:
    """Without the segment's own id, which has one length in both."""
    return path.read_bytes().replace(path.stem.removeprefix("tbl_").encode(), b"id")


def assert_same(first: Found, second: Found) -> None:
    assert first.keys() == second.keys()
    for key, cells in first.items():
        assert {name: plain(cell) for name, cell in cells.items()} == {
            name: plain(second[key][name]) for name in cells
        }


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equal_inputs_give_equal_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng)
    folder = Path(mkdtemp(prefix="rollup"))
    try:
        sources = grouped(rng, folder, rows)
        for target in (10_000, 60_000):
            built = [
                rolled(folder, order, 0, target, memory_bytes=1 << 20, name=name)
                for order, name in ((sources, "a"), (sources, "c"), (sources[::-1], "b"))
            ]
            first, second, reversed_ = built
            assert [bytes_of(part.path) for part in first] == [bytes_of(part.path) for part in second]
            assert_same(content(first), content(reversed_))
    finally:
        shutil.rmtree(folder)
