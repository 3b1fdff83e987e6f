"""Metric families and the names of their parts, as Prometheus and OpenMetrics spell them.

counter `http_requests`   http_requests_total, http_requests_created
histogram `latency`       latency_bucket, latency_sum, latency_count, latency_created
"""

from __future__ import annotations

from collections.abc import Iterator

TYPES = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")
"""Names of types by their number in remote write."""
SUFFIXES = {
    "counter": ("_total", "_created"),
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
    "summary": ("_sum", "_count", "_created"),
    "info": ("_info",),
}
ALL_SUFFIXES = sorted({suffix for suffixes in SUFFIXES.values() for suffix in suffixes})


def type_name(number: int) -> str:
    """Return the name of a type; a number that is none of them is unknown."""
    return TYPES[number] if 0 <= number < len(TYPES) else TYPES[0]


def possible_families(name: str) -> Iterator[tuple[str, str]]:
    """Yield the families that may have a part of this name, each with the suffix of the part.

    >>> list(possible_families("latency_sum"))
    [('latency_sum', ''), ('latency', '_sum')]
    """
    yield name, ""
    for suffix in ALL_SUFFIXES:
        if name.endswith(suffix):
            yield name.removesuffix(suffix), suffix


def is_part(suffix: str, type_: str) -> bool:
    """Tell if a family of this type has parts with this suffix."""
    return not suffix or suffix in SUFFIXES.get(type_, ())
