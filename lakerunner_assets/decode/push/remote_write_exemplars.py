"""`chq_exemplars` of remote write: labels verbatim, but for the ids of trace and span where they are ids.

    trace_id="0af7651916cd43dd8448eb211c80319c", user="7"   →   trace_id 16 bytes, attributes user 7

An id that is not lower-case hexadecimal of its length stays a label: it could not be given back as it was.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.fields import OWNER, Matrix, Spans
from lakerunner_assets.decode.push import remote_write_scan as scan
from lakerunner_assets.decode.push.remote_write_label_kernels import take_ids
from lakerunner_assets.decode.push.remote_write_times import NS_PER_MS, in_range
from lakerunner_assets.decode.text import strings
from lakerunner_assets.decode.wire import raise_fault
from resources.arrays import Bytes

IDS = (("trace_id", 16), ("span_id", 8))


def exemplar_column(data: Bytes, exemplars: Matrix, point_count: int, notes: Counter[str]) -> pa.Array | None:
    """The exemplars of every point, null where it has none; None: there are none in the slice."""
    if not len(exemplars):
        return None
    exemplars = exemplars[np.argsort(exemplars[:, scan.EXEMPLAR_ROW], kind="stable")]
    spans = fields.spans_of(exemplars, scan.EXEMPLAR_MESSAGE)
    total = scan.count_labels(data, spans)
    raise_fault(total)
    labels = fields.matrix(int(total), fields.ATTRIBUTE_WIDTH)
    raise_fault(scan.read_labels(data, spans, labels))
    columns: dict[str, pa.Array] = {
        "tsns": pa.array(in_range(exemplars[:, scan.EXEMPLAR_TIME], notes) * NS_PER_MS),
        "value": pa.array(fields.column(exemplars, scan.EXEMPLAR_VALUE).view(np.float64), from_pandas=False),
        "value_int": pa.nulls(len(exemplars), pa.int64()),
    }
    rest = np.ones(len(labels), np.bool_)
    for name, width in IDS:
        columns[name] = _ids(data, labels, name, width, len(exemplars), rest)
    columns["attributes"] = _map(data, labels[rest], spans, notes)
    per_point = np.bincount(exemplars[:, scan.EXEMPLAR_ROW], minlength=point_count)
    offsets = np.concatenate(([0], np.cumsum(per_point))).astype(np.int32)
    bounds = pa.array(offsets, mask=np.concatenate((per_point == 0, [False])))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(list(columns.values()), list(columns)))


def _ids(data: Bytes, labels: Matrix, name: str, width: int, count: int, rest: np.ndarray) -> pa.Array:
    """Takes the labels that are ids out of `rest`."""
    found, missing = np.zeros(count * width, np.uint8), np.ones(count, np.bool_)
    take_ids(data, labels, np.frombuffer(name.encode(), np.uint8), width, found, missing, rest)
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(width), count, [validity, pa.py_buffer(found)])


def _map(data: Bytes, labels: Matrix, exemplars: Spans, notes: Counter[str]) -> pa.MapArray:
    per_exemplar = np.bincount(labels[:, OWNER], minlength=len(exemplars.start))
    offsets = np.concatenate(([0], np.cumsum(per_exemplar))).astype(np.int32)
    bounds = pa.array(offsets, mask=np.concatenate((per_exemplar == 0, [False])))
    keys, values = (strings(data, fields.spans_of(labels, at), notes) for at in (fields.KEY, fields.VALUE))
    return pa.MapArray.from_arrays(bounds, keys, values)
