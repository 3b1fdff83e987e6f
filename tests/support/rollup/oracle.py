"""Rollup rows the slow way: a dictionary per sample, exact sums, nothing merged.

It goes by the definitions of the columns only and shares no code with the builder.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

STALE = 0x7FF0000000000002
Row = Mapping[str, Any]
Histogram = dict[str, Any]


def bits(value: float) -> int:
    return int(np.array([value], np.float64).view(np.uint64)[0])


def roll(
    rows: Iterable[Row], width_ms: int, start_ms: int, end_ms: int
) -> dict[tuple[str, int], dict[str, Any]]:
    """By label set and end of the bucket."""
    buckets: dict[tuple[str, int], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        ms = row["chq_timestamp"]
        if kind(row) is None or not start_ms < ms <= end_ms:
            continue
        end = -(-ms // width_ms) * width_ms
        per_ms = buckets[row["chq_series"], end]
        if ms not in per_ms or _counts_more(row) > _counts_more(per_ms[ms]):
            per_ms[ms] = row
    return {key: _bucket([per_ms[ms] for ms in sorted(per_ms)]) for key, per_ms in buckets.items()}


def kind(row: Row) -> str | None:
    value = row.get("chq_value")
    if value is not None:
        return "stale" if bits(value) == STALE else "float"
    if row["chq_metric_type"] == "summary":
        return "summary" if row.get("chq_hist_count") is not None else None
    names = ("chq_hist_count", "chq_hist_count_float", "chq_hist_schema", "chq_hist_bounds")
    return "histogram" if any(row.get(name) is not None for name in names) else None


def _counts_more(row: Row) -> tuple[int, bool, int, int]:
    ns = row.get("chq_tsns")
    exact = row["chq_timestamp"] * 1_000_000 if ns is None else ns
    return exact, kind(row) != "stale", row["chq_object"], row["chq_position"]


def _bucket(samples: list[Row]) -> dict[str, Any]:
    real = [each for each in samples if kind(each) != "stale"]
    words = [each["metric_temporality"] for each in samples if each.get("metric_temporality")]
    found: dict[str, Any] = {
        "newest": samples[-1],
        "temporality": None if not words else words[-1] if len(set(words)) == 1 else "mixed",
        "last_stale": kind(samples[-1]) == "stale",
        "first_ts": real[0]["chq_timestamp"] if real else None,
        "last_ts": real[-1]["chq_timestamp"] if real else None,
        **_floats([each for each in real if kind(each) == "float"]),
    }
    histograms = [histogram(each) for each in real if kind(each) == "histogram"]
    others = sum(kind(each) == "summary" for each in real)
    odd = bool(others) or found["count"] > 0 or len(set(words)) > 1
    return found | _histograms(histograms, others, odd)


def _floats(samples: list[Row]) -> dict[str, Any]:
    values = [each["chq_value"] for each in samples]
    found: dict[str, Any] = {"count": len(values), "values": values}
    pairs = list(pairwise(values))
    drops = [a for a, b in pairs if b < a]
    found["resets"] = len(drops)
    found["reset_sum"] = total(drops)
    found["changes"] = sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairs)
    found["magnitude"] = sum(abs(value) for value in values if math.isfinite(value))
    if not values:
        return found
    ordered = [value for value in values if not math.isnan(value)]
    found |= {"first": values[0], "last": values[-1], "sum": total(values)}
    found |= {"min": min(ordered, default=math.nan), "max": max(ordered, default=math.nan)}
    found["m2"] = _squares(values)
    if len(values) > 1:
        found |= {"prev": values[-2], "prev_ts": samples[-2]["chq_timestamp"]}
    return found


def total(values: list[float]) -> float:
    """Rounded once; what is not finite as the processor adds it."""
    if all(math.isfinite(value) for value in values):
        return float(sum(map(Fraction, values)))
    return sum(values)


def _squares(values: list[float]) -> float:
    if not all(math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact))


def histogram(row: Row) -> Histogram:
    """A sample as a histogram whose exponential buckets are named by their number."""

    def unsigned(name: str) -> float:
        number = row.get(name)
        return row.get(f"{name}_float") or 0.0 if number is None else float(number % 2**64)

    def side(name: str) -> dict[int, float]:
        counts = row.get(f"chq_hist_{name}_counts")
        floats = row.get(f"chq_hist_{name}_counts_float")
        numbers = [float(n % 2**64) for n in counts] if counts is not None else floats or []
        offset = row.get(f"chq_hist_{name}_offset") or 0
        return {offset + place: number for place, number in enumerate(numbers) if number}

    schema = row.get("chq_hist_schema")
    return {
        "schema": schema,
        "bounds": list(row.get("chq_hist_bounds") or []),
        "counts": [float(number % 2**64) for number in row.get("chq_hist_counts") or []],
        "zero_threshold": row.get("chq_hist_zero_threshold") or 0.0,
        "zero_count": unsigned("chq_hist_zero_count"),
        "positive": side("positive"),
        "negative": side("negative"),
        "count": unsigned("chq_hist_count"),
        "sum": row.get("chq_hist_sum"),
        "hint": row.get("chq_hist_reset_hint"),
    }


def struct_histogram(found: Mapping[str, Any] | None) -> Histogram | None:
    """The same of a struct in a rollup row."""
    if found is None:
        return None

    def side(name: str) -> dict[int, float]:
        offset = found[f"{name}_offset"] or 0
        return {offset + n: count for n, count in enumerate(found[f"{name}_counts"] or []) if count}

    plain = {name: found[name] or 0.0 for name in ("zero_threshold", "zero_count")}
    lists = {name: list(found[name] or []) for name in ("bounds", "counts")}
    sides = {name: side(name) for name in ("positive", "negative")}
    return {
        "schema": found["schema"], **lists, **plain, **sides, "count": found["count"], "sum": found["sum"]
    }  # fmt: skip


def _layout(found: Histogram) -> tuple[Any, ...]:
    return found["schema"], tuple(found["bounds"]), found["zero_threshold"], len(found["counts"])


def _falls(a: Histogram, b: Histogram) -> bool:
    if b["count"] < a["count"]:
        return True
    if _layout(a) != _layout(b):
        return False
    pairs = [(a["zero_count"], b["zero_count"]), *zip(a["counts"], b["counts"], strict=True)]
    for name in ("positive", "negative"):
        pairs += [(count, b[name].get(number, 0.0)) for number, count in a[name].items()]
    return any(after < before for before, after in pairs)


def _sum_falls(a: Histogram, b: Histogram) -> bool:
    return a["sum"] is not None and b["sum"] is not None and b["sum"] < a["sum"]


def _contradicted(samples: list[Histogram]) -> bool:
    """1: a reset, 2: none. Of the first one of a bucket a reset cannot be seen."""
    said = any(after["hint"] == (2 if _falls(before, after) else 1) for before, after in pairwise(samples))
    return said or any(each["hint"] == 1 for each in samples[:1])


def _histograms(samples: list[Histogram], others: int, odd: bool) -> dict[str, Any]:
    count = len(samples) + others
    pairs = list(pairwise(samples))
    odd = odd or _contradicted(samples)
    mixed = count > 0 and (odd or any(_layout(a) != _layout(b) for a, b in pairs))
    plain = [{name: cell for name, cell in each.items() if name != "hint"} for each in samples]
    return {
        "hist_count": count,
        "hist_mixed": mixed,
        "hist_resets": sum(_falls(a, b) or _sum_falls(a, b) for a, b in pairs),
        "hist_first": plain[0] if plain else None,
        "hist_last": plain[-1] if plain else None,
        "hist_sum": None if (mixed and count > 1) or not plain else _sum(plain),
    }


def _sum(samples: list[Histogram]) -> Histogram:
    found = {**samples[0], "positive": {}, "negative": {}}
    for name in ("count", "zero_count"):
        found[name] = sum(each[name] for each in samples)
    found["counts"] = [sum(numbers) for numbers in zip(*(each["counts"] for each in samples), strict=True)]
    sums = [each["sum"] for each in samples]
    found["sum"] = None if None in sums else sum(sums)
    for name in ("positive", "negative"):
        for each in samples:
            for number, count in each[name].items():
                found[name][number] = found[name].get(number, 0.0) + count
    return found
