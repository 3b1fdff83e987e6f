"""Metadata of remote write gives metric families their type, unit and help text.

Metadata may come in any request of the object, so it is collected before the first sample is read. The last
word about a family counts. A native histogram is one whatever its metadata says; without metadata a sample is
of type `unknown`.

    family `http_requests` counter   →   http_requests_total is a sum, cumulative and monotonic
    family `latency` histogram       →   latency_bucket, latency_sum, latency_count are a histogram's
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.otlp.framing import Slice
from lakerunner_assets.decode.otlp.owners import without_empty
from lakerunner_assets.decode.push import remote_write_histogram_kernels as kernels
from lakerunner_assets.decode.push import remote_write_kernels as scan
from lakerunner_assets.decode.push.remote_write_histograms import Histograms
from lakerunner_assets.decode.text import strings
from resources.arrays import Int64s
from resources.lake.columns import CHQ_METRIC_TYPE
from resources.lake.metric_families import is_part, possible_families, type_name

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


@dataclass(frozen=True, slots=True)
class Family:
    """Metadata of a metric family; `kind` as the protocol numbers it."""

    kind: int = 0
    unit: str = ""
    help: str = ""

    @property
    def metric_type(self) -> str:
        return METRIC_TYPES.get(self.kind, UNKNOWN)


NO_FAMILY = Family()


def families(parts: Iterable[Slice], notes: Counter[str]) -> dict[str, Family]:
    """Read all metadata of a payload, by family name."""
    found: dict[str, Family] = {}
    for part in parts:
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
    """Return the family of this name, else the one of which this is a part.

    >>> family_of("latency_sum", {"latency": Family(HISTOGRAM)}).metric_type
    'histogram'
    >>> family_of("up_total", {"up": Family(GAUGE)}).metric_type
    'unknown'
    """
    for base, suffix in possible_families(name):
        family = known.get(base)
        if family is not None and is_part(suffix, type_name(family.kind)):
            return family
    return NO_FAMILY


NATIVE, GAUGE_NATIVE = "exponential_histogram", "gaugehistogram"


GAUGE_HINT = 3


_TYPES = (UNKNOWN, *METRIC_TYPES.values(), NATIVE)


def type_columns(
    names: pa.DictionaryArray, run_of_point: Int64s, histograms: Histograms, known: Mapping[str, Family]
) -> dict[str, pa.Array]:
    """Build type, temporality, unit and help of every point; `names` by run are looked up once each."""
    found = [family_of(name, known) for name in names.dictionary.to_pylist()]
    found.append(NO_FAMILY)
    name_of_run = names.indices.fill_null(len(found) - 1).to_numpy()
    family_of_point = name_of_run[run_of_point] if len(run_of_point) else run_of_point
    types = np.array([_TYPES.index(family.metric_type) for family in found], np.int32)[family_of_point]
    gauge = histograms.rows[:, kernels.RESET_HINT] == GAUGE_HINT
    gauge |= types[histograms.points] == _TYPES.index(GAUGE_NATIVE)
    types[histograms.points] = _TYPES.index(NATIVE)
    types[histograms.points[gauge]] = _TYPES.index(GAUGE_NATIVE)
    counter = np.array([family.kind == COUNTER for family in found])[family_of_point]
    counter[histograms.points] = False
    cumulative = counter.copy()
    cumulative[histograms.points[~gauge]] = True
    of_point = pa.array(family_of_point.astype(np.int32))
    return {
        CHQ_METRIC_TYPE: pa.DictionaryArray.from_arrays(pa.array(types), pa.array(_TYPES)),
        "metric_temporality": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(types), np.int32), mask=~cumulative), pa.array(["cumulative"])
        ),
        "metric_is_monotonic": pa.array(counter, mask=~counter),
        "metric_unit": _texts([family.unit for family in found]).take(of_point),
        "metric_description": _texts([family.help for family in found]).take(of_point),
    }


def _texts(words: list[str]) -> pa.DictionaryArray:
    return without_empty(pa.array(words, pa.string()).dictionary_encode())
