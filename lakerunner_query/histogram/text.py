"""Histograms are written for people and for the API.

{count:4, sum:5, (0.5,1]:1, (1,2]:3}
{"count": "4", "sum": "5", "buckets": [[0, "0.5", "1", "1"], [0, "1", "2", "3"]]}
"""

from __future__ import annotations

import math

import numpy as np

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.histogram.model import (
    Bucket,
    Histogram,
    buckets,
    negative_buckets,
    positive_buckets,
    zero_bucket,
)

_EDGES = {(False, True): 0, (True, False): 1, (False, False): 2, (True, True): 3}
"""(lower inclusive, upper inclusive) -> number of the API."""


def text(histogram: Histogram) -> str:
    """Write every bucket that counts something, with its edges."""
    parts = [f"count:{format_float(histogram.count)}", f"sum:{format_float(histogram.sum)}"]
    parts += [_bucket(one) for one in reversed(negative_buckets(histogram)) if one.count != 0]
    if histogram.zero_count != 0:
        parts.append(_bucket(zero_bucket(histogram)))
    parts += [_bucket(one) for one in positive_buckets(histogram) if one.count != 0]
    return "{" + ", ".join(parts) + "}"


def _bucket(bucket: Bucket) -> str:
    opening = "[" if bucket.lower_inclusive else "("
    closing = "]" if bucket.upper_inclusive else ")"
    edges = f"{format_float(bucket.lower)},{format_float(bucket.upper)}"
    return f"{opening}{edges}{closing}:{format_float(bucket.count)}"


def json_form(histogram: Histogram) -> dict[str, object]:
    """Return the JSON of the HTTP API, without buckets that count zero, and without an empty list."""
    found: dict[str, object] = {"count": api_number(histogram.count), "sum": api_number(histogram.sum)}
    listed = [
        [
            _EDGES[one.lower_inclusive, one.upper_inclusive],
            api_number(one.lower),
            api_number(one.upper),
            api_number(one.count),
        ]
        for one in buckets(histogram)
        if one.count != 0
    ]
    return found | {"buckets": listed} if listed else found


def api_number(value: float) -> str:
    """Write the shortest digits; an exponent only below 1e-6 and from 1e21.

    >>> api_number(1e6), api_number(1e21), api_number(1.5e-7)
    ('1000000', '1e+21', '1.5e-07')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value != 0 and not 1e-6 <= abs(value) < 1e21:
        mantissa, exponent = np.format_float_scientific(value, trim="-").split("e")
        power = int(exponent)
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return str(np.format_float_positional(value, trim="-"))
