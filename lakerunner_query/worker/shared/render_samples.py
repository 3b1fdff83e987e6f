"""Values as the JSON text that Prometheus' API has for them, a column at a time.

[1735689600,"0.5"],[1735689660.25,"1e-07"],[1735689720,"+Inf"]
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.histogram.model import Histogram
from lakerunner_query.histogram.text import api_number, json_form
from lakerunner_query.protocol.answers import RenderedSeries
from lakerunner_query.vectors.vector import Labels, Objects, Series, Vector
from lakerunner_query.worker.shared.render_kernels import whole_blocks
from resources.arrays import Doubles, Int64s

LARGEST_WHOLE = 2.0**53
UP_TO_HERE_TOO, FROM_HERE_ARROW_HAS_EXPONENTS = 1e-3, 1e10


def number_texts(values: Doubles) -> pa.Array:
    """Each number as Prometheus spells it.

    >>> number_texts(np.array([0.5, 1e16, 1e21, 1e-7, float("nan"), float("-inf"), -0.0])).to_pylist()
    ['0.5', '10000000000000000', '1e+21', '1e-07', 'NaN', '-Inf', '-0']
    >>> number_texts(np.array([12345678901.0, 12345678901.25])).to_pylist()
    ['12345678901', '12345678901.25']
    """
    sizes = np.abs(values)
    whole = (sizes < LARGEST_WHOLE) & (values == np.trunc(values)) & ~((values == 0) & np.signbit(values))
    if whole.all():
        return pa.array(values.astype(np.int64)).cast(pa.string())
    texts = pa.array(values, from_pandas=False).cast(pa.string())
    if whole.any():
        integers = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.string())
        texts = pc.if_else(pa.array(whole), integers, texts)
    odd = ~whole & (~(sizes < FROM_HERE_ARROW_HAS_EXPONENTS) | (sizes < UP_TO_HERE_TOO))
    if odd.any():
        spelled = pa.array([api_number(value) for value in values[odd].tolist()], pa.string())
        texts = pc.replace_with_mask(texts, pa.array(odd), spelled)
    return texts


def time_texts(times_ms: Int64s) -> pa.Array:
    """Seconds, with milliseconds only where there are some.

    >>> time_texts(np.array([1000, 1500, -1, 0])).to_pylist()
    ['1', '1.500', '-0.001', '0']
    """
    if len(times_ms) and (times_ms % 1000 == 0).all():
        return pa.array(times_ms // 1000).cast(pa.string())
    return pa.array([time_text(time) for time in times_ms.tolist()], pa.string())


def time_text(time_ms: int) -> str:
    seconds, rest = divmod(abs(time_ms), 1000)
    sign = "-" if time_ms < 0 else ""
    return f"{sign}{seconds}.{rest:03d}" if rest else f"{sign}{seconds}"


def pairs(times: pa.Array, values: Doubles) -> pa.Array:
    """`[time,"value"]` of each."""
    return pc.binary_join_element_wise("[", times, ',"', number_texts(values), '"]', "")


def vector_series(vector: Vector, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    """Every series of a vector over steps, those without any sample left out."""
    floats = vector.present
    if vector.histograms is not None:
        floats = vector.present & _is_none(vector.histograms)
    counts = floats.sum(axis=1)
    rows, steps = np.nonzero(floats)
    texts = pairs(time_texts(times_ms).take(pa.array(steps)), vector.values[rows, steps])
    blocks = _blocks(texts, counts)
    histograms = _histograms(vector, times_ms)
    drop = np.zeros(len(vector.labels), np.bool_) if vector.drop_name is None else vector.drop_name
    found = zip(vector.labels, drop.tolist(), blocks, histograms, counts.tolist(), strict=True)
    return tuple(
        RenderedSeries(_text(labels), dropped, block, others, points + others_count)
        for labels, dropped, block, (others, others_count), points in found
        if points or others_count
    )


def samples_series(series: Series) -> tuple[RenderedSeries, ...]:
    """The samples of an instant query for a range vector."""
    is_float = np.ones(len(series.time_ms), np.bool_)
    if series.histograms is not None:
        is_float = _is_none(series.histograms)
    before = np.concatenate(([0], np.cumsum(is_float)))
    counts = np.diff(before[series.offsets])
    texts = pairs(time_texts(series.time_ms[is_float]), series.value[is_float])
    found: list[RenderedSeries] = []
    for number, (labels, block) in enumerate(zip(series.labels, _blocks(texts, counts), strict=True)):
        rows = range(int(series.offsets[number]), int(series.offsets[number + 1]))
        others = [] if series.histograms is None else [r for r in rows if series.histograms[r] is not None]
        rendered = b",".join(_pair(int(series.time_ms[r]), series.histograms[r]) for r in others)  # type: ignore[index]
        dropped = bool(series.drop_name is not None and series.drop_name[number])
        found.append(RenderedSeries(_text(labels), dropped, block, rendered, len(rows)))
    return tuple(found)


def scalar_series(values: Doubles, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    no_labels: Labels = ()
    texts = pairs(time_texts(times_ms), values)
    block = _blocks(texts, np.array([len(values)]))[0]
    return (RenderedSeries(no_labels, False, block, b"", len(values)),)


@lru_cache(maxsize=100_000)
def _text(labels: Labels) -> Labels:
    """Bytes of a query that are no UTF-8 cannot be told in JSON: they become U+FFFD."""
    return tuple((readable(name), readable(value)) for name, value in labels)


def readable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_none(cells: Objects) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.equal(cells, np.array(None, object)).astype(np.bool_)
    return found


def _blocks(texts: pa.Array, counts: Int64s) -> list[bytes]:
    """Neighbours joined with commas, so many each."""
    offsets = np.concatenate(([0], np.cumsum(counts)))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    joined = pc.binary_join(lists, ",")
    return [text.encode() for text in joined.to_pylist()]


def _histograms(vector: Vector, times_ms: Int64s) -> list[tuple[bytes, int]]:
    if vector.histograms is None:
        return [(b"", 0)] * len(vector.labels)
    found: list[tuple[bytes, int]] = []
    for series in range(len(vector.labels)):
        row = vector.histograms[series]
        steps = [s for s in np.flatnonzero(vector.present[series]).tolist() if row[s] is not None]
        found.append((b",".join(_pair(int(times_ms[step]), row[step]) for step in steps), len(steps)))
    return found


def _pair(time_ms: int, histogram: Histogram) -> bytes:
    return b"[%s,%s]" % (time_text(time_ms).encode(), msgspec.json.encode(json_form(histogram)))


# << Samples of LogQL as text: as PromQL's, but numbers never have exponents in Loki's answers.
# <<
# << [1735689600,"0.0000001"],[1735689660,"1000000000000000000000"],[1735689720,"+Inf"]

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
        blocks = _log_blocks(_pairs(times.take(pa.array(steps)), vector.values[rows, steps]), counts)
    return tuple(
        RenderedSeries(tuple((readable(n), readable(v)) for n, v in labels), False, block, b"", count)
        for labels, block, count in zip(vector.labels, blocks, counts.tolist(), strict=True)
        if count
    )


def scalar_text(values: Doubles, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    (block,) = _log_blocks(_pairs(time_texts(times_ms), values), np.array([len(values)]))
    return (RenderedSeries((), False, block, b"", len(values)),)


def _pairs(times: pa.StringArray, values: Doubles) -> pa.StringArray:
    return pc.binary_join_element_wise("[", times, ',"', plain_texts(values), '"]', "")


def _log_blocks(texts: pa.StringArray, counts: Int64s) -> list[bytes]:
    """Neighbours joined with commas, so many each."""
    offsets = np.concatenate(([0], np.cumsum(counts)))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    return [text.encode() for text in pc.binary_join(lists, ",").to_pylist()]
