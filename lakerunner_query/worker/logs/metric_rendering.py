"""Samples of LogQL as text: as PromQL's, but numbers never have exponents in Loki's answers.

[1735689600,"0.0000001"],[1735689660,"1000000000000000000000"],[1735689720,"+Inf"]
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.protocol.answers import RenderedSeries
from lakerunner_query.vectors.vector import Vector
from lakerunner_query.worker.logs.whole_numbers import whole_blocks
from lakerunner_query.worker.metrics.rendering import number_texts, readable, time_texts
from resources.arrays import Doubles, Int64s

EXPONENT = "e"


def plain_texts(values: Doubles) -> pa.StringArray:
    """
    >>> plain_texts(np.array([0.5, 1e21, 1e-7, -2.5e-9, float("nan"), float("-inf"), 3.0])).to_pylist()
    ['0.5', '1000000000000000000000', '0.0000001', '-0.0000000025', 'NaN', '-Inf', '3']
    """
    texts = number_texts(values)
    odd = pc.match_substring(texts, EXPONENT)
    if not pc.any(odd).as_py():
        return texts
    chosen = values[odd.to_numpy(zero_copy_only=False)]
    spelled = pa.array([format(Decimal(repr(one)), "f") for one in chosen.tolist()], pa.string())
    return pc.replace_with_mask(texts, odd, spelled)


def vector_texts(vector: Vector, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    """Every series, those without any sample left out."""
    times, counts = time_texts(times_ms), vector.present.sum(axis=1)
    blocks = whole_blocks(vector.values, vector.present, times)
    if blocks is None:
        rows, steps = np.nonzero(vector.present)
        blocks = _blocks(_pairs(times.take(pa.array(steps)), vector.values[rows, steps]), counts)
    return tuple(
        RenderedSeries(tuple((readable(n), readable(v)) for n, v in labels), False, block, b"", count)
        for labels, block, count in zip(vector.labels, blocks, counts.tolist(), strict=True)
        if count
    )


def scalar_text(values: Doubles, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    (block,) = _blocks(_pairs(time_texts(times_ms), values), np.array([len(values)]))
    return (RenderedSeries((), False, block, b"", len(values)),)


def _pairs(times: pa.StringArray, values: Doubles) -> pa.StringArray:
    return pc.binary_join_element_wise("[", times, ',"', plain_texts(values), '"]', "")


def _blocks(texts: pa.StringArray, counts: Int64s) -> list[bytes]:
    """Neighbours joined with commas, so many each."""
    offsets = np.concatenate(([0], np.cumsum(counts)))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    return [text.encode() for text in pc.binary_join(lists, ",").to_pylist()]
