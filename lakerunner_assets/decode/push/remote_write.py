"""Prometheus remote write (`prometheus.WriteRequest`s behind our marker) becomes Arrow tables.

    {__name__="http_requests_total", job="web"}  12:00:15  17
      metric_name http_requests_total | series [["__name__",…],["job","web"]] | timestamp 12:00:15 |
      value 17 | metric type sum, if metadata says counter | attr_job web

Labels are the series, verbatim; values are kept to the bit. One row per sample and per native histogram;
exemplars are in the row of their series and time, or in rows of their own, without a value, where a series
came with nothing else. Positions count all of these, also those of series without a name, which are rejected.
An object is cut between its fields: senders put at most some thousand samples into one series, megabytes at
the very worst.

Labels of exemplars are kept verbatim, but for the ids of trace and span where they are ids:

    trace_id="0af7651916cd43dd8448eb211c80319c", user="7"   →   trace_id 16 bytes, attributes user 7

An id that is not lower-case hexadecimal of its length stays a label: it could not be given back as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request
from lakerunner_assets.decode.errors import DecodeError, TooLargeError, raise_fault
from lakerunner_assets.decode.field_kernels import OWNER, Matrix, Spans, matrix
from lakerunner_assets.decode.otlp.framing import Slice
from lakerunner_assets.decode.otlp.owners import LAST_NS, assemble
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.push import remote_write_kernels as scan
from lakerunner_assets.decode.push.remote_write_histograms import Histograms, read_histograms
from lakerunner_assets.decode.push.remote_write_kernels import (
    EXEMPLAR_WIDTH,
    MAX_SLICE_BYTES,
    POINT_WIDTH,
    SERIES_WIDTH,
    ScannedSeries,
    walk,
)
from lakerunner_assets.decode.push.remote_write_label_kernels import take_ids
from lakerunner_assets.decode.push.remote_write_labels import SeriesLabels, series_labels
from lakerunner_assets.decode.push.remote_write_metadata import Family, families, type_columns
from lakerunner_assets.decode.text import strings
from lakerunner_assets.decode.wire_kernels import whole_fields
from resources.arrays import Bytes, Int64s
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_SERIES,
    CHQ_TID,
    CHQ_TIMESTAMP,
    CHQ_VALUE,
    CHQ_VALUE_KIND,
)

IDS = (("trace_id", 16), ("span_id", 8))


def exemplar_column(data: Bytes, exemplars: Matrix, point_count: int, notes: Counter[str]) -> pa.Array | None:
    """Return the exemplars of every point, null where it has none; None when the slice has none."""
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
    """Take the labels that are ids out of `rest`."""
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


STALE = 0x7FF0000000000002
"""Bits of Prometheus' stale marker; of a native histogram, those of its sum."""
MAX_BUCKETS_AT_ONCE = 1 << 22
"""Buckets of native histograms in one table: gaps between spans cost nothing to send."""


def decode_remote_write(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
    """Decode the points of an object, a slice at a time."""
    notes: Counter[str] = Counter()
    known = families(series_slices(payload, request.slice_bytes), notes)
    place = request.place
    for part in series_slices(payload, request.slice_bytes):
        for decoded in _decode_slice(part, place, known):
            place = replace(
                place, first_position=place.first_position + decoded.table.num_rows + decoded.rejected
            )
            yield replace(decoded, notes=dict(notes + Counter(decoded.notes)))
            notes = Counter()


def _decode_slice(part: Slice, place: Place, known: Mapping[str, Family]) -> Iterator[DecodedSlice]:
    """Decode the points of a slice; one with too many buckets is halved between its series."""
    try:
        view = np.frombuffer(part.data, np.uint8)
        scanned = scan_series(view)
        histograms = read_histograms(view, scanned.points)
        many = histograms.buckets > MAX_BUCKETS_AT_ONCE
        if many and len(scanned.series) == 1:
            raise TooLargeError(0, f"one series with {histograms.buckets} histogram buckets in one request")
        if not many:
            yield _table(view, scanned, histograms, place, known, part.base)
            return
    except DecodeError as error:
        if part.base == 0:
            raise
        raise type(error)(error.offset + part.base, error.message) from error
    middle = int(scanned.series[len(scanned.series) // 2, scan.SERIES_AT])
    for half in (Slice(part.base, part.data[:middle]), Slice(part.base + middle, part.data[middle:])):
        for decoded in _decode_slice(half, place, known):
            passed = decoded.table.num_rows + decoded.rejected
            place = replace(place, first_position=place.first_position + passed)
            yield decoded


def _table(
    data: Bytes,
    scanned: scan.ScannedSeries,
    histograms: Histograms,
    place: Place,
    known: Mapping[str, Family],
    base: int,
) -> DecodedSlice:
    notes: Counter[str] = Counter()
    points, count = scanned.points, len(scanned.points)
    labels = series_labels(scanned, notes)
    run_of_point = labels.run_of_series[points[:, scan.POINT_SERIES]]
    of_point = pa.array(run_of_point.astype(np.int32))
    columns = {
        CHQ_OBJECT: pa.array(np.full(count, place.object_id, np.int64)),
        CHQ_POSITION: pa.array(np.arange(place.first_position, place.first_position + count)),
        "metric_name": labels.names.take(of_point),
        CHQ_TID: pa.array(labels.ids[run_of_point] if count else run_of_point),
        CHQ_SERIES: labels.series.take(of_point),
        CHQ_TIMESTAMP: pa.array(in_range(points[:, scan.TIME], notes)),
        **_value_columns(scanned, histograms),
        **type_columns(labels.names, run_of_point, histograms, known),
    }
    if len(histograms.points):
        columns |= dict(histograms.columns(notes))
    exemplars = exemplar_column(data, scanned.exemplars, count, notes)
    if exemplars is not None:
        columns[CHQ_EXEMPLARS] = exemplars
    table = assemble(columns, labels.flat(run_of_point, notes))
    return _without(table, _faults(labels, histograms, run_of_point), scanned, notes, base)


def _value_columns(scanned: scan.ScannedSeries, histograms: Histograms) -> dict[str, pa.Array]:
    """Return samples as sent; of histograms only the stale marker, so that staleness has one form."""
    kind = scanned.points[:, scan.POINT_KIND]
    bits = fields.column(scanned.points, scan.POINT_VALUE)
    stale = histograms.points[histograms.sums == STALE]
    bits[stale] = STALE
    missing = kind != scan.SAMPLE
    codes = pa.array(np.zeros(len(kind), np.int32), mask=missing)
    missing[stale] = False
    return {
        CHQ_VALUE: pa.array(bits.view(np.float64), mask=missing, from_pandas=False),
        CHQ_VALUE_KIND: pa.DictionaryArray.from_arrays(codes, pa.array(["double"])),
    }


def _faults(labels: SeriesLabels, histograms: Histograms, run_of_point: Int64s) -> dict[int, str]:
    """Return the points to reject, and why."""
    found = histograms.faults()
    if labels.faults:
        for point in np.flatnonzero(np.isin(run_of_point, list(labels.faults))).tolist():
            found[point] = labels.faults[int(run_of_point[point])]
    return found


def _without(
    table: pa.Table, faults: Mapping[int, str], scanned: scan.ScannedSeries, notes: Counter[str], base: int
) -> DecodedSlice:
    if not faults:
        return DecodedSlice(table, 0, dict(notes))
    notes.update(Counter(faults.values()))
    kept = np.ones(table.num_rows, np.bool_)
    kept[list(faults)] = False
    first = min(faults)
    at = base + int(scanned.series[scanned.points[first, scan.POINT_SERIES], scan.SERIES_AT])
    return DecodedSlice(
        table.filter(pa.array(kept)),
        len(faults),
        dict(notes),
        f"byte {at}: {faults[first].replace('_', ' ')}",
    )


MAX_SERIES_BYTES = 64 << 20


def series_slices(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Cut the payload into whole fields, in order; a broken or cut-off end is in the last slice."""
    position, size = 0, slice_bytes
    while position < payload.size:
        window = payload.read(position, size)
        last = position + len(window) == payload.size
        length = len(window) if last else int(whole_fields(np.frombuffer(window, np.uint8), len(window)))
        if length:
            yield Slice(position, window[:length])
            position, size = position + length, slice_bytes
        elif size < MAX_SERIES_BYTES:
            size = min(2 * size, MAX_SERIES_BYTES)
        else:
            raise TooLargeError(position, f"no field ends within the limit of {MAX_SERIES_BYTES} bytes")


NS_PER_MS = 1_000_000


LAST_MS = LAST_NS // NS_PER_MS


FIRST_MS = -9_214_646_400_000
"""1678-01-01: the earliest time whose hour also begins within 64 bits."""


def in_range(times: Int64s, notes: Counter[str]) -> Int64s:
    """Clip times to the first and last instant that fit, for the quarantine."""
    for note, odd in (("time_after_2262", times > LAST_MS), ("time_before_1678", times < FIRST_MS)):
        if odd.any():
            notes[note] += int(odd.sum())
    return np.clip(times, FIRST_MS, LAST_MS)


def scan_series(data: Bytes) -> ScannedSeries:
    """Scan all series of a request."""
    if len(data) > MAX_SLICE_BYTES:
        raise TooLargeError(0, f"one message of {len(data)} bytes: the limit is {MAX_SLICE_BYTES}")
    counts = np.zeros(4, np.int64)
    raise_fault(walk(data, counts, _empty(np.zeros(4, np.int64)), False))
    found = _empty(counts)
    raise_fault(walk(data, np.zeros(4, np.int64), found, True))
    return found


def _empty(counts: Int64s) -> ScannedSeries:
    series, points, exemplars, run_bytes = counts.tolist()
    return ScannedSeries(
        matrix(series, SERIES_WIDTH),
        matrix(points, POINT_WIDTH),
        matrix(exemplars, EXEMPLAR_WIDTH),
        np.zeros(run_bytes, np.uint8),
    )
