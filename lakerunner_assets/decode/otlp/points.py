"""Columns that every data point has: times, flags, value, and what its metric says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.fields import INT, Matrix, Spans
from lakerunner_assets.decode.otlp import scan_metrics as scan
from lakerunner_assets.decode.otlp.metric_identity import METRIC_TYPES
from lakerunner_assets.decode.otlp.owners import nullable, time_in_range, without_empty
from lakerunner_assets.decode.text import coded_strings, strings
from lakerunner_assets.decode.wire import raise_fault
from resources.arrays import Bytes, Int64s

NO_RECORDED_VALUE = 1
STALE = 0x7FF0000000000002
"""The bits of Prometheus' stale marker. Bits, since a signalling NaN does not survive arithmetic."""
NS_PER_MS = 1_000_000
_TEMPORALITIES = ("unspecified", "delta", "cumulative")
_WITH_TEMPORALITY = (scan.SUM, scan.HISTOGRAM, scan.EXPONENTIAL)


def time_columns(points: Matrix, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    """`chq_timestamp` in whole milliseconds; nanoseconds only where they say more."""
    sent = fields.column(points, scan.TIME)
    if unset := int((sent == 0).sum()):
        notes["points_without_time"] += unset
    time = time_in_range(sent, notes)
    milliseconds = time // NS_PER_MS
    yield "chq_timestamp", pa.array(milliseconds)
    whole = milliseconds * NS_PER_MS == time
    yield "chq_tsns", pa.nulls(len(time), pa.int64()) if whole.all() else nullable(time, whole)
    start = time_in_range(fields.column(points, scan.START), notes)
    yield "chq_start_tsns", nullable(start, start == 0)
    yield "chq_flags", pa.array(fields.column(points, scan.FLAGS))


def value_columns(
    points: Matrix, kind_of_point: Int64s, notes: Counter[str]
) -> Iterator[tuple[str, pa.Array]]:
    """The value to the bit; an integer also as sent where a double cannot say it."""
    bits, kind = fields.column(points, scan.VALUE), points[:, scan.VALUE_KIND]
    stale = (points[:, scan.FLAGS] & NO_RECORDED_VALUE) != 0
    integer = kind == INT
    doubles, inexact = as_doubles(bits, integer)
    missing = (kind == fields.EMPTY) & ~stale
    numbers = (kind_of_point == scan.GAUGE) | (kind_of_point == scan.SUM)
    if unset := int((missing & numbers).sum()):
        notes["points_without_value"] += unset
    yield "chq_value", nullable(np.where(stale, np.int64(STALE), doubles).view(np.float64), missing)
    yield "chq_value_int", nullable(bits, ~(inexact & ~stale))
    codes = pa.array(np.where(integer, 0, 1).astype(np.int32), mask=kind == fields.EMPTY)
    yield "chq_value_kind", pa.DictionaryArray.from_arrays(codes, pa.array(["int", "double"]))


def as_doubles(bits: Int64s, integer: npt.NDArray[np.bool_]) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """The bits of the doubles, and which of the integers are not exactly equal to theirs."""
    converted = bits.astype(np.float64)
    fits = converted < 2.0**63
    exact = np.where(fits, converted, 0.0).astype(np.int64) == bits
    return np.where(integer, converted.view(np.int64), bits), integer & ~exact


def metric_columns(
    data: Bytes, spans: Spans, metrics: Matrix, metric_of_point: Int64s, notes: Counter[str]
) -> Iterator[tuple[str, pa.Array]]:
    """What a metric says of all its points."""
    of_point = pa.array(metric_of_point.astype(np.int32))
    kinds = metrics[:, scan.KIND]
    names = list(METRIC_TYPES.values())
    codes = np.searchsorted(list(METRIC_TYPES), kinds).astype(np.int32)
    yield "chq_metric_type", _dictionary(codes, names, kinds == 0).take(of_point)
    yield "metric_temporality", _temporality(metrics, notes).take(of_point)
    monotonic = pa.array(metrics[:, scan.MONOTONIC] != 0, mask=kinds != scan.SUM)
    yield "metric_is_monotonic", monotonic.take(of_point)
    for name, field in (("metric_unit", scan.UNIT), ("metric_description", scan.DESCRIPTION)):
        sent = coded_strings(data, fields.spans_of(metrics, field), notes)
        yield name, without_empty(sent).take(of_point)
    metadata = _metadata(data, spans, notes)
    if metadata is not None:
        yield "metric_metadata", metadata.take(of_point)


def _temporality(metrics: Matrix, notes: Counter[str]) -> pa.DictionaryArray:
    """As sent; a number that OTLP does not know is kept as text."""
    sent, kinds = metrics[:, scan.TEMPORALITY], metrics[:, scan.KIND]
    missing = ~np.isin(kinds, _WITH_TEMPORALITY)
    strange = np.unique(sent[~missing & ((sent < 0) | (sent >= len(_TEMPORALITIES)))])
    if len(strange):
        notes["unknown_temporality"] += len(strange)
    known = {number: code for code, number in enumerate([*range(len(_TEMPORALITIES)), *strange.tolist()])}
    codes = np.array([known.get(number, 0) for number in sent.tolist()], np.int32)
    return _dictionary(codes, [*_TEMPORALITIES, *(str(number) for number in strange.tolist())], missing)


def _metadata(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.MapArray | None:
    """`Metric.metadata` by metric, as text; None: there is none in the slice."""
    count, failed = fields.count_owned(data, spans, scan.METADATA_TAG)
    raise_fault(failed)
    if count == 0:
        return None
    owners = fields.matrix(len(spans.start), fields.OWNER_WIDTH)
    rows = fields.matrix(int(count), fields.ATTRIBUTE_WIDTH)
    raise_fault(fields.fill_owned(data, spans, (-1, -1, scan.METADATA_TAG, -1), owners, rows))
    return text_map(data, rows, len(spans.start), notes)


def text_map(data: Bytes, rows: Matrix, owners: int, notes: Counter[str]) -> pa.MapArray:
    """The attributes of every owner as text by key; null for owners that have none."""
    attributes = fields.attributes_of(rows)
    per_owner = np.bincount(attributes.owner, minlength=owners)
    offsets = np.concatenate(([0], np.cumsum(per_owner))).astype(np.int32)
    bounds = pa.array(offsets, mask=np.concatenate((per_owner == 0, [False])))
    return pa.MapArray.from_arrays(
        bounds, strings(data, attributes.key, notes), texts(data, attributes.values, notes)
    )


def _dictionary(
    codes: npt.NDArray[np.int32], words: list[str], missing: npt.NDArray[np.bool_]
) -> pa.DictionaryArray:
    codes = np.where(missing, np.int32(0), codes)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), pa.array(words, pa.string()))
