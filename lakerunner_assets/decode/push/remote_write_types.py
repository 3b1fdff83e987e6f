"""What metadata says of every point: type, temporality, unit, help.

A native histogram is one whatever its metadata says; without metadata a sample is of type `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.otlp.owners import without_empty
from lakerunner_assets.decode.push import remote_write_histogram_kernels as kernels
from lakerunner_assets.decode.push.remote_write_histograms import Histograms
from lakerunner_assets.decode.push.remote_write_metadata import (
    COUNTER,
    METRIC_TYPES,
    NO_FAMILY,
    UNKNOWN,
    Family,
    family_of,
)
from resources.arrays import Int64s
from resources.lake.columns import CHQ_METRIC_TYPE

NATIVE, GAUGE_NATIVE = "exponential_histogram", "gaugehistogram"
GAUGE_HINT = 3
_TYPES = (UNKNOWN, *METRIC_TYPES.values(), NATIVE)


def type_columns(
    names: pa.DictionaryArray, run_of_point: Int64s, histograms: Histograms, known: Mapping[str, Family]
) -> dict[str, pa.Array]:
    """`names` by run; looked up once per distinct name."""
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
