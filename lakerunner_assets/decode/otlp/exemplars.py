"""`chq_exemplars`: the examples of single measurements that points carry, with their trace and span.

`value` is always there; `value_int` too where an integer was sent.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.fields import EMPTY, INT, Matrix, Spans
from lakerunner_assets.decode.otlp import scan_metric_exemplars as scan
from lakerunner_assets.decode.otlp.groups import count_attributes
from lakerunner_assets.decode.otlp.owners import ids, nullable, time_in_range
from lakerunner_assets.decode.otlp.points import as_doubles, text_map
from lakerunner_assets.decode.otlp.scan_metrics import EXEMPLARS
from lakerunner_assets.decode.wire import raise_fault
from resources.arrays import Bytes, Int64s


def exemplar_column(
    data: Bytes,
    spans: Spans,
    metric_of_point: Int64s,
    metrics: Matrix,
    points: Matrix,
    notes: Counter[str],
) -> pa.ListArray | None:
    """The exemplars of every point, null where it has none; None: there are none in the slice."""
    per_point = fields.column(points, EXEMPLARS)
    total = int(per_point.sum())
    if total == 0:
        return None
    places = Spans(np.zeros(total, np.int64), np.zeros(total, np.int32))
    raise_fault(scan.find_exemplars(data, spans, metric_of_point, metrics, points, places))
    size, failed = count_attributes(data, places, scan.ATTRIBUTE_TAG)
    raise_fault(failed)
    rows = fields.matrix(total, scan.EXEMPLAR_WIDTH)
    attributes = fields.matrix(int(size), fields.ATTRIBUTE_WIDTH)
    raise_fault(scan.read_exemplars(data, places, rows, attributes))
    offsets = np.concatenate(([0], np.cumsum(per_point))).astype(np.int32)
    bounds = pa.array(offsets, mask=np.concatenate((per_point == 0, [False])))
    return pa.ListArray.from_arrays(bounds, _exemplars(data, rows, attributes, notes))


def _exemplars(data: Bytes, rows: Matrix, attributes: Matrix, notes: Counter[str]) -> pa.StructArray:
    sent = fields.column(rows, scan.TIME)
    bits, kind = fields.column(rows, scan.VALUE), rows[:, scan.VALUE_KIND]
    doubles, _ = as_doubles(bits, kind == INT)
    columns = {
        "tsns": nullable(time_in_range(sent, notes), sent == 0),
        "value": nullable(doubles.view(np.float64), kind == EMPTY),
        "value_int": nullable(bits, kind != INT),
        "trace_id": ids(data, fields.spans_of(rows, scan.TRACE_ID), 16, "invalid_trace_id", notes),
        "span_id": ids(data, fields.spans_of(rows, scan.SPAN_ID), 8, "invalid_span_id", notes),
        "attributes": text_map(data, attributes, len(rows), notes),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))
