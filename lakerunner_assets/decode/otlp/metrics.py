"""OTLP protobuf metrics (ExportMetricsServiceRequest or MetricsData, the same on the wire) to Arrow tables.

One row per data point, of every kind; the position of a point is its ordinal in the whole object, whatever
the slicing. Columns that a slice has nothing for (histograms, exemplars, metadata) are left out. A decoded
table, beside the flat attributes `resource_* scope_* attr_*` and the columns of owners.py:

| column | where it is made |
|---|---|
| metric_name, metric_original_name, chq_tid, chq_series | metric_identity.py, by the rules of series.py |
| chq_timestamp, chq_tsns, chq_start_tsns, chq_flags | points.py |
| chq_value, chq_value_int, chq_value_kind | points.py; NoRecordedValue is the stale marker for every kind |
| chq_metric_type, metric_{temporality,is_monotonic,unit,description,metadata} | points.py |
| chq_hist_*, chq_summary_quantiles | metric_distributions.py |
| chq_exemplars | exemplars.py |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.attributes import AttributeColumns, attribute_columns, take_columns
from lakerunner_assets.decode.fields import Matrix, Spans
from lakerunner_assets.decode.otlp import scan_metrics as scan
from lakerunner_assets.decode.otlp.exemplars import exemplar_column
from lakerunner_assets.decode.otlp.groups import Groups, find_groups, row_of
from lakerunner_assets.decode.otlp.metric_distributions import distribution_columns
from lakerunner_assets.decode.otlp.metric_identity import identity_columns
from lakerunner_assets.decode.otlp.metric_runs import Runs, attribute_runs
from lakerunner_assets.decode.otlp.owners import FlatColumn, assemble, owners
from lakerunner_assets.decode.otlp.points import metric_columns, time_columns, value_columns
from lakerunner_assets.decode.result import Decoded, Place
from lakerunner_assets.decode.wire import raise_fault
from resources.arrays import Bytes, Int64s
from resources.lake.options import DecodeOptions


@dataclass(frozen=True, slots=True)
class Scanned:
    """A slice as matrices of positions; columns are named in scan_metrics.py."""

    data: Bytes
    groups: Groups
    metrics: Matrix
    spans: Spans
    """Of the points."""
    points: Matrix
    metric_of_point: Int64s

    def kind_of_point(self) -> Int64s:
        return row_of(self.metrics[:, scan.KIND], self.metric_of_point)


def decode_metrics(data: bytes, place: Place, options: DecodeOptions) -> Decoded:
    """The data points of an ExportMetricsServiceRequest."""
    view = np.frombuffer(data, np.uint8)
    scanned = scanned_slice(view, 0, len(view))
    notes = _notes(scanned.metrics)
    count = len(scanned.points)
    runs = attribute_runs(view, scanned.points, scanned.metric_of_point, scanned.metrics)
    owned = owners(
        view, scanned.groups, row_of(scanned.groups.scope_of_record, scanned.metric_of_point), notes
    )
    columns = {
        "chq_object": pa.array(np.full(count, place.object_id, np.int64)),
        "chq_position": pa.array(np.arange(place.first_position, place.first_position + count)),
    }
    columns |= identity_columns(
        view, scanned.metrics, scanned.groups, scanned.metric_of_point, runs, owned, options
    )
    columns |= dict(_point_columns(scanned, notes))
    columns |= owned.columns
    return Decoded(assemble(columns, [*owned.flat(), *_attributes(runs, count, notes)]), 0, dict(notes))


def scanned_slice(data: Bytes, start: int, end: int) -> Scanned:
    """Positions and numbers of the metrics and points in `data[start:end]`."""
    groups = find_groups(data, start, end)
    metrics = fields.matrix(len(groups.records.start), scan.METRIC_WIDTH)
    raise_fault(scan.read_metrics(data, groups.records, metrics))
    count = int(metrics[:, scan.POINTS].sum())
    spans = Spans(np.zeros(count, np.int64), np.zeros(count, np.int32))
    metric_of_point = np.zeros(count, np.int64)
    raise_fault(scan.find_points(data, groups.records, metrics, spans, metric_of_point))
    points = fields.matrix(count, scan.POINT_WIDTH)
    raise_fault(scan.read_points(data, spans, metric_of_point, metrics, points))
    return Scanned(data, groups, metrics, spans, points, metric_of_point)


def _notes(metrics: Matrix) -> Counter[str]:
    """Metrics that leave no row behind."""
    empty = metrics[:, scan.POINTS] == 0
    unknown = metrics[:, scan.KIND] == 0
    counts = {
        "metrics_without_data": int(unknown.sum()),
        "metrics_without_points": int((empty & ~unknown).sum()),
    }
    return Counter({name: count for name, count in counts.items() if count})


def _point_columns(scanned: Scanned, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    data, spans, metrics, points = scanned.data, scanned.spans, scanned.metrics, scanned.points
    metric_of_point, kinds = scanned.metric_of_point, scanned.kind_of_point()
    yield from time_columns(points, notes)
    yield from value_columns(points, kinds, notes)
    yield from metric_columns(data, scanned.groups.records, metrics, metric_of_point, notes)
    yield from distribution_columns(data, spans, metric_of_point, metrics, kinds, notes)
    exemplars = exemplar_column(data, spans, metric_of_point, metrics, points, notes)
    if exemplars is not None:
        yield "chq_exemplars", exemplars


def _attributes(runs: Runs, count: int, notes: Counter[str]) -> list[FlatColumn]:
    """Flat columns of the points' own attributes, made for distinct runs and spread over the points."""
    columns = attribute_columns(runs.data, runs.attributes, runs.count, "record", notes)
    if runs.count < count:
        return [("record", *pair) for pair in take_columns(columns, runs.of_point.astype(np.int32))]
    return [("record", *pair) for pair in _each(columns)]


def _each(columns: AttributeColumns) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The columns as they are: every point has a run of its own."""
    yield from columns.columns.items()
    if columns.overflow is not None:
        yield None, columns.overflow
