"""Histograms as the scripts of promqltest write them: {{count:4 sum:5 buckets:[1 3]}}."""

from __future__ import annotations

import numpy as np

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.histogram.model import Buckets, Hint, Histogram

_HINTS = {Hint.RESET: "reset", Hint.NO_RESET: "not_reset", Hint.GAUGE: "gauge"}


def script_text(histogram: Histogram) -> str:
    """Write as promqltest does; zeros and defaults are left out."""
    numbers = {
        "count": histogram.count,
        "sum": histogram.sum,
        "z_bucket": histogram.zero_count,
        "z_bucket_w": histogram.zero_threshold,
    }
    parts = [f"schema:{histogram.schema}"] if histogram.schema else []
    parts += [f"{name}:{format_float(value)}" for name, value in numbers.items() if value != 0]
    if histogram.is_custom:
        parts.append(f"custom_values:[{' '.join(map(format_float, histogram.bounds))}]")
    if histogram.hint in _HINTS:
        parts.append(f"counter_reset_hint:{_HINTS[histogram.hint]}")
    parts += _side(histogram.positive, "offset", "buckets")
    parts += _side(histogram.negative, "n_offset", "n_buckets")
    return "{{" + " ".join(parts) + "}}"


def _side(side: Buckets, offset: str, name: str) -> list[str]:
    side = side.populated()
    if not side.size:
        return []
    first = int(side.index[0])
    dense = np.zeros(int(side.index[-1]) - first + 1)
    dense[side.index - first] = side.count
    shift = [f"{offset}:{first}"] if first else []
    return [*shift, f"{name}:[{' '.join(map(format_float, dense.tolist()))}]"]
