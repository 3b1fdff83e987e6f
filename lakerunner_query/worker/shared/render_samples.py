"""Samples are rendered as JSON text in the forms of Prometheus and Loki.

[1735689600,"0.5"],[1735689660.25,"1e-07"],[1735689720,"+Inf"]      Prometheus
[1735689600,"0.5"],[1735689660,"0.0000001"],[1735689720,"+Inf"]     Loki: numbers never have exponents
"""

from __future__ import annotations

from collections.abc import Sequence
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
ARROW_PLAIN_ABOVE, ARROW_PLAIN_BELOW = 1e-3, 1e10
"""Numbers between them are spelled by Arrow without an exponent, as here."""


def number_texts(values: Doubles) -> pa.Array:
    """Render each number as Prometheus does.

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
    odd = ~whole & (~(sizes < ARROW_PLAIN_BELOW) | (sizes < ARROW_PLAIN_ABOVE))
    if odd.any():
        spelled = pa.array([api_number(value) for value in values[odd].tolist()], pa.string())
        texts = pc.replace_with_mask(texts, pa.array(odd), spelled)
    return texts


def time_texts(times_ms: Int64s) -> pa.Array:
    """Render seconds, with milliseconds only where there are some.

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
    """Render each sample as `[time,"value"]`."""
    return pc.binary_join_element_wise("[", times, ',"', number_texts(values), '"]', "")


def vector_series(vector: Vector, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    """Render every series of a vector that has a sample."""
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


def parse_vector(series: Sequence[RenderedSeries], times_ms: Int64s) -> Vector:
    """Restore a vector from its samples as text; series are ordered by their labels.

    >>> late = RenderedSeries((("a", "1"),), False, b'[3,"+Inf"]', b"", 1)
    >>> early = RenderedSeries((("a", "1"),), False, b'[1,"0.5"]', b"", 1)
    >>> parse_vector([late, early], np.array([1000, 2000, 3000])).values.tolist()
    [[0.5, 0.0, inf]]
    """
    rows = {labels: row for row, labels in enumerate(sorted({one.labels for one in series}))}
    values = np.zeros((len(rows), len(times_ms)))
    present = np.zeros(values.shape, np.bool_)
    for one in series:
        numbers = np.fromstring(one.floats.translate(None, b'[]"').decode(), sep=",")
        steps = np.searchsorted(times_ms, np.rint(numbers[0::2] * 1000).astype(np.int64))
        values[rows[one.labels], steps] = numbers[1::2]
        present[rows[one.labels], steps] = True
    return Vector(list(rows), values, present)


def samples_series(series: Series) -> tuple[RenderedSeries, ...]:
    """Render the samples of an instant query for a range vector."""
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
    """Replace bytes that are no UTF-8 by U+FFFD: JSON cannot carry them."""
    return tuple((readable(name), readable(value)) for name, value in labels)


def readable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_none(cells: Objects) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.equal(cells, np.array(None, object)).astype(np.bool_)
    return found


def _blocks(texts: pa.Array, counts: Int64s) -> list[bytes]:
    """Join `counts[i]` neighbours each with commas."""
    offsets = np.concatenate(([0], np.cumsum(counts)))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    return [text.encode() for text in pc.binary_join(lists, ",").to_pylist()]


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


EXPONENT = "e"


def log_number_texts(values: Doubles) -> pa.StringArray:
    """Render each number as Loki does.

    >>> log_number_texts(np.array([0.5, 1e21, 1e-7, -2.5e-9, float("nan"), float("-inf"), 3.0])).to_pylist()
    ['0.5', '1000000000000000000000', '0.0000001', '-0.0000000025', 'NaN', '-Inf', '3']
    """
    texts = number_texts(values)
    odd = pc.match_substring(texts, EXPONENT)
    if not pc.any(odd).as_py():
        return texts
    chosen = values[odd.to_numpy(zero_copy_only=False)]
    spelled = pa.array([format(Decimal(repr(one)), "f") for one in chosen.tolist()], pa.string())
    return pc.replace_with_mask(texts, odd, spelled)


def log_vector_series(vector: Vector, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    """Render every series that has a sample."""
    times, counts = time_texts(times_ms), vector.present.sum(axis=1)
    blocks = whole_blocks(vector.values, vector.present, times)
    if blocks is None:
        rows, steps = np.nonzero(vector.present)
        blocks = _blocks(_log_pairs(times.take(pa.array(steps)), vector.values[rows, steps]), counts)
    return tuple(
        RenderedSeries(tuple((readable(n), readable(v)) for n, v in labels), False, block, b"", count)
        for labels, block, count in zip(vector.labels, blocks, counts.tolist(), strict=True)
        if count
    )


def log_scalar_series(values: Doubles, times_ms: Int64s) -> tuple[RenderedSeries, ...]:
    (block,) = _blocks(_log_pairs(time_texts(times_ms), values), np.array([len(values)]))
    return (RenderedSeries((), False, block, b"", len(values)),)


def _log_pairs(times: pa.StringArray, values: Doubles) -> pa.StringArray:
    return pc.binary_join_element_wise("[", times, ',"', log_number_texts(values), '"]', "")
