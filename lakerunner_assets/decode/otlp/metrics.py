"""OTLP protobuf metrics (ExportMetricsServiceRequest or MetricsData) become Arrow tables.

One row per data point, of every kind; the position of a point is its ordinal in the whole object, whatever
the slicing. Columns that a slice has nothing for (histograms, exemplars, metadata) are left out. A decoded
table has, beside the flat attributes `resource_* scope_* attr_*` and the columns of owners.py:

| columns | where they are made |
|---|---|
| metric_name, metric_original_name, series id, series | metric_series.py, by the rules of metric_labels.py |
| timestamp, event time, start time, flags | here |
| value, integer value, kind of value | here; NoRecordedValue is the stale marker for every kind |
| metric type, metric_{temporality,is_monotonic,unit,description,metadata} | here |
| histograms, summary quantiles | metric_distributions.py |
| exemplars, with their trace and span; `value_int` where an integer was sent | here |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.attributes import AttributeColumns, attribute_columns, take_columns
from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.field_kernels import EMPTY, INT, Matrix, Spans
from lakerunner_assets.decode.otlp import scan_metrics_kernels as scan
from lakerunner_assets.decode.otlp.groups_kernels import Groups
from lakerunner_assets.decode.otlp.metric_distributions import distribution_columns
from lakerunner_assets.decode.otlp.metric_series import METRIC_TYPES, Runs, attribute_runs, identity_columns
from lakerunner_assets.decode.otlp.owners import (
    FlatColumn,
    assemble,
    find_groups,
    ids,
    nullable,
    owners,
    row_of,
    time_in_range,
    without_empty,
)
from lakerunner_assets.decode.otlp.scan_metrics_kernels import EXEMPLARS
from lakerunner_assets.decode.text import encode_strings, strings
from resources.arrays import Bytes, Int64s
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_FLAGS,
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_START_TSNS,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
    CHQ_VALUE,
    CHQ_VALUE_INT,
    CHQ_VALUE_KIND,
)
from resources.lake.options import DecodeOptions

NO_RECORDED_VALUE = 1
STALE = 0x7FF0000000000002
"""Bits of Prometheus' stale marker. Bits, since a signalling NaN does not survive arithmetic."""
NS_PER_MS = 1_000_000
_TEMPORALITIES = ("unspecified", "delta", "cumulative")
_WITH_TEMPORALITY = (scan.SUM, scan.HISTOGRAM, scan.EXPONENTIAL)


def time_columns(points: Matrix, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    """Yield times in whole milliseconds, and nanoseconds only where they say more."""
    sent = fields.column(points, scan.TIME)
    if unset := int((sent == 0).sum()):
        notes["points_without_time"] += unset
    time = time_in_range(sent, notes)
    milliseconds = time // NS_PER_MS
    yield CHQ_TIMESTAMP, pa.array(milliseconds)
    whole = milliseconds * NS_PER_MS == time
    yield CHQ_TSNS, pa.nulls(len(time), pa.int64()) if whole.all() else nullable(time, whole)
    start = time_in_range(fields.column(points, scan.START), notes)
    yield CHQ_START_TSNS, nullable(start, start == 0)
    yield CHQ_FLAGS, pa.array(fields.column(points, scan.FLAGS))


def value_columns(
    points: Matrix, kind_of_point: Int64s, notes: Counter[str]
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the value to the bit; an integer also as sent where a double cannot hold it."""
    bits, kind = fields.column(points, scan.VALUE), points[:, scan.VALUE_KIND]
    stale = (points[:, scan.FLAGS] & NO_RECORDED_VALUE) != 0
    integer = kind == INT
    doubles, inexact = as_doubles(bits, integer)
    missing = (kind == fields.EMPTY) & ~stale
    numbers = (kind_of_point == scan.GAUGE) | (kind_of_point == scan.SUM)
    if unset := int((missing & numbers).sum()):
        notes["points_without_value"] += unset
    yield CHQ_VALUE, nullable(np.where(stale, np.int64(STALE), doubles).view(np.float64), missing)
    yield CHQ_VALUE_INT, nullable(bits, ~(inexact & ~stale))
    codes = pa.array(np.where(integer, 0, 1).astype(np.int32), mask=kind == fields.EMPTY)
    yield CHQ_VALUE_KIND, pa.DictionaryArray.from_arrays(codes, pa.array(["int", "double"]))


def as_doubles(bits: Int64s, integer: npt.NDArray[np.bool_]) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return the bits of the doubles, and which of the integers are not exactly equal to theirs."""
    converted = bits.astype(np.float64)
    fits = converted < 2.0**63
    exact = np.where(fits, converted, 0.0).astype(np.int64) == bits
    return np.where(integer, converted.view(np.int64), bits), integer & ~exact


def metric_columns(
    data: Bytes, spans: Spans, metrics: Matrix, metric_of_point: Int64s, notes: Counter[str]
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the properties of the metric at all its points."""
    of_point = pa.array(metric_of_point.astype(np.int32))
    kinds = metrics[:, scan.KIND]
    names = list(METRIC_TYPES.values())
    codes = np.searchsorted(list(METRIC_TYPES), kinds).astype(np.int32)
    yield CHQ_METRIC_TYPE, _dictionary(codes, names, kinds == 0).take(of_point)
    yield "metric_temporality", _temporality(metrics, notes).take(of_point)
    monotonic = pa.array(metrics[:, scan.MONOTONIC] != 0, mask=kinds != scan.SUM)
    yield "metric_is_monotonic", monotonic.take(of_point)
    for name, field in (("metric_unit", scan.UNIT), ("metric_description", scan.DESCRIPTION)):
        sent = encode_strings(data, fields.spans_of(metrics, field), notes)
        yield name, without_empty(sent).take(of_point)
    metadata = _metadata(data, spans, notes)
    if metadata is not None:
        yield "metric_metadata", metadata.take(of_point)


def _temporality(metrics: Matrix, notes: Counter[str]) -> pa.DictionaryArray:
    """Return the temporality as sent; a number that OTLP does not know is kept as text."""
    sent, kinds = metrics[:, scan.TEMPORALITY], metrics[:, scan.KIND]
    missing = ~np.isin(kinds, _WITH_TEMPORALITY)
    strange = np.unique(sent[~missing & ((sent < 0) | (sent >= len(_TEMPORALITIES)))])
    if len(strange):
        notes["unknown_temporality"] += len(strange)
    known = {number: code for code, number in enumerate([*range(len(_TEMPORALITIES)), *strange.tolist()])}
    codes = np.array([known.get(number, 0) for number in sent.tolist()], np.int32)
    return _dictionary(codes, [*_TEMPORALITIES, *(str(number) for number in strange.tolist())], missing)


def _metadata(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.MapArray | None:
    """Return `Metric.metadata` by metric, as text; None when the slice has none."""
    count, failed = fields.count_owned(data, spans, scan.METADATA_TAG)
    raise_fault(failed)
    if count == 0:
        return None
    owners = fields.matrix(len(spans.start), fields.OWNER_WIDTH)
    rows = fields.matrix(int(count), fields.ATTRIBUTE_WIDTH)
    raise_fault(fields.fill_owned(data, spans, (-1, -1, scan.METADATA_TAG, -1), owners, rows))
    return text_map(data, rows, len(spans.start), notes)


def text_map(data: Bytes, rows: Matrix, owners: int, notes: Counter[str]) -> pa.MapArray:
    """Return the attributes of every owner as text by key; null for owners that have none."""
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


def exemplar_column(
    data: Bytes,
    spans: Spans,
    metric_of_point: Int64s,
    metrics: Matrix,
    points: Matrix,
    notes: Counter[str],
) -> pa.ListArray | None:
    """Return the exemplars of every point, null where it has none; None when the slice has none."""
    per_point = fields.column(points, EXEMPLARS)
    total = int(per_point.sum())
    if total == 0:
        return None
    places = Spans(np.zeros(total, np.int64), np.zeros(total, np.int32))
    raise_fault(scan.find_exemplars(data, spans, metric_of_point, metrics, points, places))
    size, failed = fields.count_owned(data, places, scan.EXEMPLAR_ATTRIBUTE_TAG)
    raise_fault(failed)
    rows = fields.matrix(total, scan.EXEMPLAR_WIDTH)
    attributes = fields.matrix(int(size), fields.ATTRIBUTE_WIDTH)
    raise_fault(scan.read_exemplars(data, places, rows, attributes))
    offsets = np.concatenate(([0], np.cumsum(per_point))).astype(np.int32)
    bounds = pa.array(offsets, mask=np.concatenate((per_point == 0, [False])))
    return pa.ListArray.from_arrays(bounds, _exemplars(data, rows, attributes, notes))


def _exemplars(data: Bytes, rows: Matrix, attributes: Matrix, notes: Counter[str]) -> pa.StructArray:
    sent = fields.column(rows, scan.EXEMPLAR_TIME)
    bits, kind = fields.column(rows, scan.EXEMPLAR_VALUE), rows[:, scan.EXEMPLAR_VALUE_KIND]
    doubles, _ = as_doubles(bits, kind == INT)
    columns = {
        "tsns": nullable(time_in_range(sent, notes), sent == 0),
        "value": nullable(doubles.view(np.float64), kind == EMPTY),
        "value_int": nullable(bits, kind != INT),
        "trace_id": ids(data, fields.spans_of(rows, scan.EXEMPLAR_TRACE_ID), 16, "invalid_trace_id", notes),
        "span_id": ids(data, fields.spans_of(rows, scan.EXEMPLAR_SPAN_ID), 8, "invalid_span_id", notes),
        "attributes": text_map(data, attributes, len(rows), notes),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


@dataclass(frozen=True, slots=True)
class ScannedMetrics:
    """Slice as matrices of positions; scan_metrics_kernels.py names the columns."""

    data: Bytes
    groups: Groups
    metrics: Matrix
    spans: Spans
    """Slices of the points."""
    points: Matrix
    metric_of_point: Int64s

    def kind_of_point(self) -> Int64s:
        return row_of(self.metrics[:, scan.KIND], self.metric_of_point)


def decode_metrics(data: bytes, place: Place, options: DecodeOptions) -> DecodedSlice:
    """Decode the data points of an ExportMetricsServiceRequest."""
    view = np.frombuffer(data, np.uint8)
    scanned = scan_slice(view, 0, len(view))
    notes = _notes(scanned.metrics)
    count = len(scanned.points)
    runs = attribute_runs(view, scanned.points, scanned.metric_of_point, scanned.metrics)
    owned = owners(
        view, scanned.groups, row_of(scanned.groups.scope_of_record, scanned.metric_of_point), notes
    )
    columns = {
        CHQ_OBJECT: pa.array(np.full(count, place.object_id, np.int64)),
        CHQ_POSITION: pa.array(np.arange(place.first_position, place.first_position + count)),
    }
    columns |= identity_columns(
        view, scanned.metrics, scanned.groups, scanned.metric_of_point, runs, owned, options
    )
    columns |= dict(_point_columns(scanned, notes))
    columns |= owned.columns
    return DecodedSlice(assemble(columns, [*owned.flat(), *_attributes(runs, count, notes)]), 0, dict(notes))


def scan_slice(data: Bytes, start: int, end: int) -> ScannedMetrics:
    """Scan `data[start:end]` for the positions and numbers of metrics and points."""
    groups = find_groups(data, start, end)
    metrics = fields.matrix(len(groups.records.start), scan.METRIC_WIDTH)
    raise_fault(scan.read_metrics(data, groups.records, metrics))
    count = int(metrics[:, scan.POINTS].sum())
    spans = Spans(np.zeros(count, np.int64), np.zeros(count, np.int32))
    metric_of_point = np.zeros(count, np.int64)
    raise_fault(scan.find_points(data, groups.records, metrics, spans, metric_of_point))
    points = fields.matrix(count, scan.POINT_WIDTH)
    raise_fault(scan.read_points(data, spans, metric_of_point, metrics, points))
    return ScannedMetrics(data, groups, metrics, spans, points, metric_of_point)


def _notes(metrics: Matrix) -> Counter[str]:
    """Count metrics that leave no row behind."""
    empty = metrics[:, scan.POINTS] == 0
    unknown = metrics[:, scan.KIND] == 0
    counts = {
        "metrics_without_data": int(unknown.sum()),
        "metrics_without_points": int((empty & ~unknown).sum()),
    }
    return Counter({name: count for name, count in counts.items() if count})


def _point_columns(scanned: ScannedMetrics, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    data, spans, metrics, points = scanned.data, scanned.spans, scanned.metrics, scanned.points
    metric_of_point, kinds = scanned.metric_of_point, scanned.kind_of_point()
    yield from time_columns(points, notes)
    yield from value_columns(points, kinds, notes)
    yield from metric_columns(data, scanned.groups.records, metrics, metric_of_point, notes)
    yield from distribution_columns(data, spans, metric_of_point, metrics, kinds, notes)
    exemplars = exemplar_column(data, spans, metric_of_point, metrics, points, notes)
    if exemplars is not None:
        yield CHQ_EXEMPLARS, exemplars


def _attributes(runs: Runs, count: int, notes: Counter[str]) -> list[FlatColumn]:
    """Build flat columns of the points' own attributes, once per distinct run."""
    columns = attribute_columns(runs.data, runs.attributes, runs.count, "record", notes)
    if runs.count < count:
        return [("record", *pair) for pair in take_columns(columns, runs.of_point.astype(np.int32))]
    return [("record", *pair) for pair in _each(columns)]


def _each(columns: AttributeColumns) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the columns as they are: every point has a run of its own."""
    yield from columns.columns.items()
    if columns.overflow is not None:
        yield None, columns.overflow
