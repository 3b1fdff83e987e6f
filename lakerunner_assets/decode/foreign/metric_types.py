"""What foreign rows say about the type of a metric."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.foreign.mapping import Fields
from lakerunner_assets.decode.foreign.values import coded, text_of
from resources.arrays import Int64s

_TYPES = {
    "gauge": "gauge",
    "counter": "sum",
    "sum": "sum",
    **dict.fromkeys(
        ("histogram", "exponential_histogram", "gaugehistogram", "summary", "info", "stateset", "unknown",
         "untyped"), "unknown",
    ),
}  # fmt: skip
"""What a row with a single number can be; the word for another type is kept in `metric_metadata`."""


def type_columns(fields: Fields, row: Int64s) -> dict[str, pa.Array]:
    """Type, temporality and monotonicity; a word that names no type stays a label."""
    words: list[str] = []
    codes = np.zeros(fields.count, np.int32)  # 0: none
    for key, column in fields.candidates("metric_type"):
        texts = coded(text_of(key[1], column))
        found = [word.strip().lower() for word in texts.dictionary.to_pylist()]
        code_of = np.array(
            [len(words) + i + 1 if w in _TYPES else 0 for i, w in enumerate(found)] + [0], np.int32
        )
        chosen = np.where(codes == 0, code_of[texts.indices.fill_null(len(found)).to_numpy()], 0)
        fields.take(key, chosen > 0)
        codes = np.where(chosen > 0, chosen, codes)
        words += found
    indices = pa.array(codes[row])

    def spread(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([None, *values], kind).take(indices)

    types = pa.array(["unknown", *(_TYPES.get(word, "unknown") for word in words)]).dictionary_encode()
    counters = ["cumulative" if word == "counter" else None for word in words]
    found_types = {
        "chq_metric_type": types.take(indices),
        "metric_temporality": pa.array([None, *counters], pa.string()).dictionary_encode().take(indices),
        "metric_is_monotonic": spread([True if word == "counter" else None for word in words], pa.bool_()),
    }
    odd: list[object] = [
        [("type", word)] if _TYPES.get(word) == "unknown" and word != "unknown" else None for word in words
    ]
    if any(odd):
        found_types["metric_metadata"] = spread(odd, pa.map_(pa.string(), pa.string()))
    return found_types
