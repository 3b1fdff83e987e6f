"""Types, units and help texts of metric families, and which family a series belongs to.

Metadata may come in any request of the object, so it is collected before the first sample is read. The last
word about a family counts.

    family `http_requests` counter   →   http_requests_total is a sum, cumulative and monotonic
    family `latency` histogram       →   latency_bucket, latency_sum, latency_count are a histogram's
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.push import remote_write_kernels as scan
from lakerunner_assets.decode.push.remote_write_slices import series_slices
from lakerunner_assets.decode.text import strings
from lakerunner_assets.decode.wire import raise_fault

COUNTER, GAUGE, HISTOGRAM, GAUGE_HISTOGRAM, SUMMARY, INFO, STATE_SET = range(1, 8)
METRIC_TYPES = {
    COUNTER: "sum",
    GAUGE: "gauge",
    HISTOGRAM: "histogram",
    GAUGE_HISTOGRAM: "gaugehistogram",
    SUMMARY: "summary",
    INFO: "info",
    STATE_SET: "stateset",
}
UNKNOWN = "unknown"
SUFFIXES = {
    COUNTER: ("_total", "_created"),
    HISTOGRAM: ("_bucket", "_sum", "_count", "_created"),
    GAUGE_HISTOGRAM: ("_bucket", "_gsum", "_gcount"),
    SUMMARY: ("_sum", "_count", "_created"),
    INFO: ("_info",),
}
_ALL_SUFFIXES = sorted({suffix for suffixes in SUFFIXES.values() for suffix in suffixes})


@dataclass(frozen=True, slots=True)
class Family:
    """`kind` as the protocol numbers it."""

    kind: int = 0
    unit: str = ""
    help: str = ""

    @property
    def metric_type(self) -> str:
        return METRIC_TYPES.get(self.kind, UNKNOWN)


NO_FAMILY = Family()


def families(payload: Payload, slice_bytes: int, notes: Counter[str]) -> dict[str, Family]:
    """All metadata of the payload, by family name."""
    found: dict[str, Family] = {}
    for part in series_slices(payload, slice_bytes):
        view = np.frombuffer(part.data, np.uint8)
        count, failed = scan.read_metadata(view, len(view), fields.matrix(0, scan.METADATA_WIDTH))
        raise_fault(failed, part.base)
        if not count:
            continue
        rows = fields.matrix(int(count), scan.METADATA_WIDTH)
        scan.read_metadata(view, len(view), rows)
        names, helps, units = (
            strings(view, fields.spans_of(rows, field), notes).to_pylist()
            for field in (scan.FAMILY, scan.HELP, scan.UNIT)
        )
        kinds = rows[:, scan.METADATA_TYPE].tolist()
        found |= {
            name: Family(kind, unit, text)
            for name, kind, unit, text in zip(names, kinds, units, helps, strict=True)
        }
    return found


def family_of(name: str, known: Mapping[str, Family]) -> Family:
    """The family called so, else the one of which this is a part.

    >>> family_of("latency_sum", {"latency": Family(HISTOGRAM)}).metric_type
    'histogram'
    >>> family_of("up_total", {"up": Family(GAUGE)}).metric_type
    'unknown'
    """
    if name in known:
        return known[name]
    for suffix in _ALL_SUFFIXES:
        family = known.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if family is not None and suffix in SUFFIXES.get(family.kind, ()):
            return family
    return NO_FAMILY
