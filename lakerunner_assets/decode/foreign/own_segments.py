"""Our own segments are read back as the decoded table they were written from.

Export and import lose nothing. Rows come in the segment's order and get new row ids, since they are rows of a
new raw object; everything else, ids of streams and series too, is what it was. Label sets come from the
series table inside the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.decode.dispatch import DecodedSlice, Request
from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.foreign.own_columns import Expected, attributes_of
from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.decode.payload import Payload
from resources.lake import metric_values, series, streams
from resources.lake.columns import (
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_QUARANTINE_REASON,
    CHQ_SEGMENT,
    CHQ_SERIES,
    CHQ_STREAM,
    CHQ_STREAM_ID,
    CHQ_TID,
    CHQ_VALUE,
)
from resources.lake.layout import Signal
from resources.lake.segment_file import FORMAT_VERSION, SegmentFacts, read_facts, read_label_map
from resources.lake.signals import FACTS
from resources.lake.streams import Labels, canonical, labels_to_text, stream_id

_MARK = CHQ_SEGMENT.encode()
_ROW_ID = (CHQ_OBJECT, CHQ_POSITION)
_AGAIN = CHQ_QUARANTINE_REASON
"""Quarantine reason, which cooking judges anew."""


def is_segment(metadata: pq.FileMetaData) -> bool:
    return _MARK in (metadata.metadata or {})


def segment_tables(
    payload: Payload,
    metadata: pq.FileMetaData,
    batches: Iterable[pa.RecordBatch],
    request: Request,
    signal: Signal,
) -> Iterator[DecodedSlice]:
    """Yield a decoded table per batch."""
    facts, has_samples = _facts(metadata, signal), FACTS[signal].has_samples
    attributes = attributes_of(read_label_map(metadata))
    expected = Expected(signal, attributes)
    raw = _series_bytes(payload, facts)
    names = _SeriesNames(raw, facts) if has_samples else _StreamNames(raw)
    first = 0
    for batch in batches:
        expected.check(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if has_samples:
            stored = {name: columns.pop(name) for name in metric_values.VALUE_COLUMNS}
            _check_exponents(stored[metric_values.EXPONENT])
            columns[CHQ_VALUE] = metric_values.values(stored)
        name, labels, known = names.of_rows(columns, first)
        columns[name] = labels
        place = request.place
        columns[CHQ_OBJECT] = pa.array(np.full(batch.num_rows, place.object_id, np.int64))
        start = place.first_position + first
        columns[CHQ_POSITION] = pa.array(np.arange(start, start + batch.num_rows))
        yield DecodedSlice(_table(columns, attributes), streams=known)
        first += batch.num_rows
    if first != facts.rows:
        raise MalformedError(0, f"Parquet: a segment of {facts.rows} rows in which {first} were found")


def _facts(metadata: pq.FileMetaData, signal: Signal) -> SegmentFacts:
    try:
        facts = read_facts(metadata)
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedError(0, f"Parquet: a segment of ours whose footer cannot be read: {error}") from error
    if facts.format_version > FORMAT_VERSION:
        found = facts.format_version
        raise MalformedError(0, f"a segment of format {found}; this version reads up to {FORMAT_VERSION}")
    if facts.dataset.removesuffix("-quarantine") != signal.value:
        raise MalformedError(0, f"a segment of dataset {facts.dataset!r}; expected {signal.value!r}")
    return facts


def _check_exponents(exponents: pa.Array) -> None:
    ends = pc.min_max(exponents).as_py()
    if not 0 <= ends["min"] <= ends["max"] <= metric_values.MAX_DIGITS:
        raise MalformedError(0, f"a segment with values scaled by 10^{ends['min']} to 10^{ends['max']}")


def _check_labels(labels: Labels, identity: int) -> None:
    """Compare the id with its labels: rows under another id would be in no answer."""
    if canonical(dict(labels)) != labels or stream_id(labels) != identity:
        raise MalformedError(0, f"a segment in which {identity} is not the id of the labels {labels}")


def _series_bytes(payload: Payload, facts: SegmentFacts) -> bytes:
    start, length = facts.series_offset, facts.series_length
    if start < 0 or length <= 0 or start + length > payload.size:
        raise MalformedError(0, f"a segment whose series table is not in the file: {length} bytes at {start}")
    return payload.read(start, length)


class _StreamNames:
    """Labels by stream id, for logs and spans."""

    def __init__(self, raw: bytes) -> None:
        found = streams.decode(raw)
        for stream in found:
            _check_labels(stream.labels, stream.stream_id)
        self._labels = {stream.stream_id: stream.labels for stream in found}
        self._ids = pa.array(self._labels, pa.int64())
        self._texts = pa.array([labels_to_text(labels) for labels in self._labels.values()], pa.string())

    def of_rows(
        self, columns: dict[str, pa.Array], _first: int
    ) -> tuple[str, pa.DictionaryArray, dict[int, Labels]]:
        ids = columns[CHQ_STREAM_ID]
        codes = pc.index_in(ids, self._ids)
        if codes.null_count:
            raise MalformedError(0, "a segment with rows of a stream that its stream table lacks")
        known = {identity: self._labels[identity] for identity in ids.unique().to_pylist()}
        return CHQ_STREAM, pa.DictionaryArray.from_arrays(codes, self._texts), known


class _SeriesNames:
    """Labels by row: a metric segment is sorted by series."""

    def __init__(self, raw: bytes, facts: SegmentFacts) -> None:
        self._series = series.decode(raw, facts.rows)
        for each in self._series:
            _check_labels(each.labels, each.tid)
        self._tids = np.array([each.tid for each in self._series], np.int64)
        self._names = pa.array([dict(each.labels).get(series.NAME_LABEL, "") for each in self._series])
        self._starts = np.array([each.row for each in self._series], np.int64)
        self._texts: Sequence[str] = [labels_to_text(each.labels) for each in self._series]

    def of_rows(
        self, columns: dict[str, pa.Array], first: int
    ) -> tuple[str, pa.DictionaryArray, dict[int, Labels]]:
        rows = np.arange(first, first + len(columns[CHQ_TID]))
        found = np.searchsorted(self._starts, rows, side="right") - 1
        named = self._names.take(pa.array(found))
        same = pc.all(pc.equal(named, columns["metric_name"].cast(pa.string()))).as_py()
        if not same or (columns[CHQ_TID].to_numpy() != self._tids[found]).any():
            raise MalformedError(0, "a segment with rows of another series than its series table says")
        low, high = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        texts = pa.array(self._texts[low:high], pa.string())
        known = {each.tid: each.labels for each in self._series[low:high]}
        return (
            CHQ_SERIES,
            pa.DictionaryArray.from_arrays(pa.array((found - low).astype(np.int32)), texts),
            known,
        )


def _table(columns: dict[str, pa.Array], attributes: dict[str, Attribute]) -> pa.Table:
    columns.pop(_AGAIN, None)
    ordered = [*_ROW_ID, *(name for name in columns if name not in _ROW_ID)]
    schema = [
        attributes[name].field(name, columns[name].type)
        if name in attributes
        else pa.field(name, columns[name].type)
        for name in ordered
    ]
    return pa.Table.from_arrays([columns[name] for name in ordered], schema=pa.schema(schema))
