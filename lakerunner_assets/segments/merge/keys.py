"""Sort keys are rows of 64-bit words in the order of the ordinary writers.

    logs     slot and service, fingerprint, time, object, position
    traces   without a trace id, both halves of it, start, object, position
    samples  series, exact time, object, position
    rollup   series, end of the bucket

Beside the key each row has a code, its stream or series, and the time that says which window it is in.
"""
# ruff: noqa: ARG002  all orders are asked the same way

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakerunner_assets.segments.merge.label_sets import SeriesUnion, StreamUnion
from lakerunner_assets.segments.merge.merge_kernels import Keys, places_of
from lakerunner_assets.segments.order import SLOT_NS
from lakerunner_assets.segments.series_order import NS_PER_MS
from resources.arrays import Int32s, Int64s
from resources.lake.columns import (
    CHQ_FINGERPRINT,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_STREAM_ID,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
)
from resources.lake.timecut import cut

_SIGN = np.uint64(1 << 63)
_SERVICE_BITS = 32

Columns = Mapping[str, pa.Array]
"""Columns of a batch, by the name of the column in the format."""


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Keys, codes and times of the rows of a batch."""

    keys: Keys
    codes: Int32s
    times: Int64s


class Order(Protocol):
    """The sort order of one signal."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that `sort_keys` reads."""

    @property
    def optional(self) -> tuple[str, ...]:
        """Columns of these that may be missing."""

    def sort_keys(self, columns: Columns, source: int, start: int) -> KeyedRows:
        """Compute the keys of rows of that source from `start` on."""


@dataclass(frozen=True, slots=True)
class LogOrder:
    streams: StreamUnion
    columns = (CHQ_STREAM_ID, CHQ_TSNS, CHQ_FINGERPRINT, CHQ_OBJECT, CHQ_POSITION)
    optional = ()

    def sort_keys(self, columns: Columns, source: int, start: int) -> KeyedRows:
        stream, times, fingerprint, *row_id = (_numbers(columns[name]) for name in self.columns)
        codes = _stream_codes(stream, self.streams)
        slot = cut(times, SLOT_NS) // SLOT_NS << _SERVICE_BITS
        return KeyedRows(
            _stack(slot + self.streams.service_rank[codes], fingerprint, times, *row_id), codes, times
        )


@dataclass(frozen=True, slots=True)
class SpanOrder:
    streams: StreamUnion
    columns = (CHQ_STREAM_ID, "span_start_ns", CHQ_OBJECT, CHQ_POSITION, "span_trace_id")
    optional = ("span_trace_id",)

    def sort_keys(self, columns: Columns, source: int, start: int) -> KeyedRows:
        stream, times, *row_id = (_numbers(columns[name]) for name in self.columns[:-1])
        trace = columns.get("span_trace_id")
        if trace is None:
            trace = pa.nulls(len(times), pa.binary(16))
        missing = trace.is_null().to_numpy(zero_copy_only=False)
        halves = np.zeros((len(times), 2), np.int64)
        if not missing.all():
            raw = np.frombuffer(trace.buffers()[1], ">u8")[2 * trace.offset : 2 * (trace.offset + len(trace))]
            halves = (raw.astype(np.uint64) ^ _SIGN).view(np.int64).reshape(-1, 2)
            if missing.any():
                halves[missing] = 0
        keys = _stack(missing.astype(np.int64), halves[:, 0], halves[:, 1], times, *row_id)
        return KeyedRows(keys, _stream_codes(stream, self.streams), times)


@dataclass(frozen=True, slots=True)
class SampleOrder:
    series: SeriesUnion
    columns = (CHQ_TIMESTAMP, CHQ_OBJECT, CHQ_POSITION, CHQ_TSNS)
    optional = (CHQ_TSNS,)

    def sort_keys(self, columns: Columns, source: int, start: int) -> KeyedRows:
        times_ms, *row_id = (_numbers(columns[name]) for name in self.columns[:-1])
        times = times_ms * NS_PER_MS
        exact = columns.get(CHQ_TSNS)
        if exact is not None and exact.null_count < len(exact):
            sent = exact.is_valid().to_numpy(zero_copy_only=False)
            times = np.where(sent, exact.fill_null(0).to_numpy(), times)
        ranks = self.series.of_source[source].ranks(start, len(times))
        return KeyedRows(_stack(ranks, times, *row_id), ranks, times)


@dataclass(frozen=True, slots=True)
class RollupOrder:
    series: SeriesUnion
    columns = (CHQ_TIMESTAMP,)
    optional = ()

    def sort_keys(self, columns: Columns, source: int, start: int) -> KeyedRows:
        ends_ms = _numbers(columns[CHQ_TIMESTAMP])
        ranks = self.series.of_source[source].ranks(start, len(ends_ms))
        return KeyedRows(_stack(ranks, ends_ms), ranks, ends_ms * NS_PER_MS)


def _numbers(column: pa.Array) -> Int64s:
    if column.null_count:
        raise ValueError(f"{column.null_count} nulls in a column of the sort key")
    numbers: Int64s = column.to_numpy()
    return numbers


def _stack(*words: np.ndarray) -> Keys:
    keys = np.empty((len(words[0]), len(words)), np.int64)
    for place, word in enumerate(words):
        keys[:, place] = word
    return keys


def _stream_codes(ids: Int64s, union: StreamUnion) -> Int32s:
    codes = places_of(ids, union.ids)
    if (codes < 0).any():
        raise ValueError(f"stream {ids[codes < 0][0]} is not in the stream table")
    return codes
