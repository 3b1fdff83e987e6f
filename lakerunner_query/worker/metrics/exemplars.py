"""Exemplars are read beside the samples of a series: single measurements with their trace.

A histogram with explicit buckets has those of each bucket at `_bucket{le}`, as Prometheus does, and all at
its own name where that is given exactly; other series have theirs at their own name. Repeats of an exemplar
in later exports count once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.answers import LATE_MS, Exemplar, ExemplarAnswer, Pairs, SeriesExemplars
from lakerunner_query.protocol.units import (
    ExemplarUnit,
    SegmentRef,
    SeriesSelector,
    selected_segments,
)
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.classic_series import BUCKET, LE, bound_text
from lakerunner_query.worker.metrics.row_groups import FileLayout, read_columns
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, UnitReader
from lakerunner_query.worker.metrics.series_table import SeriesTable, match_texts
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_EXEMPLARS, CHQ_HIST_BOUNDS
from resources.lake.series import NAME_LABEL

MAX_EXEMPLARS = 100_000
TRACE_LABELS = ("trace_id", "traceID", "traceId")
"""Labels by which clients name the trace of an exemplar; the first is also that of OTLP's field."""
NS_PER_MS = 1_000_000
Found = dict[Labels, set[Exemplar]]


class ExemplarReader:
    """Answers units about exemplars."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: ExemplarUnit, cancellation: Cancellation) -> ExemplarAnswer:
        found: Found = {}
        with self._opener.open_unit(cancellation) as reader:
            lists = selected_segments(unit.segments, unit.selected, len(unit.selections))
            for segment, table in reader.tables(unit.segments):
                selections = [
                    selection
                    for selection, segments in zip(unit.selections, lists, strict=True)
                    if segment in segments
                ]
                self._read_segment(reader, segment, table, selections, unit.trace_id, found)
            report = reader.report()
        ordered = sorted(found.items())
        return ExemplarAnswer(
            tuple(SeriesExemplars(labels, tuple(sorted(each))) for labels, each in ordered if each), report
        )

    def _read_segment(
        self,
        reader: UnitReader,
        segment: SegmentRef,
        table: SeriesTable,
        selections: Sequence[SeriesSelector],
        trace_id: str,
        found: Found,
    ) -> None:
        for selection in selections:
            for suffix in ("", BUCKET):
                stored = [m for m in selection.matchers if not (suffix and m.name == LE)]
                overlapping = table.overlapping(selection.from_ms, selection.to_ms + LATE_MS)
                series = np.flatnonzero(table.matching(stored, suffix) & overlapping)
                if not len(series):
                    continue
                layout = reader.layout(segment)
                if layout is None or CHQ_EXEMPLARS not in layout.places:
                    return
                _collect(reader, segment, layout, table, series, selection, suffix, trace_id, found)


def _collect(
    reader: UnitReader,
    segment: SegmentRef,
    layout: FileLayout,
    table: SeriesTable,
    numbers: Int64s,
    selection: SeriesSelector,
    suffix: str,
    trace_id: str,
    found: Found,
) -> None:
    begin, end = table.row[numbers], table.row[numbers] + table.rows[numbers]
    columns = [name for name in (CHQ_EXEMPLARS, CHQ_HIST_BOUNDS) if name in layout.places]
    total = sum(map(len, found.values()))
    starts = layout.starts
    file = reader.file(segment)
    if file is None:
        return
    groups = [n for n in range(len(starts) - 1) if ((begin < starts[n + 1]) & (end > starts[n])).any()]
    reader.fetch(segment, [one for number in groups for one in layout.chunks(number, columns)])
    for number in groups:
        reader.cancellation.check()
        group = reader.attempt(segment, partial(read_columns, file, layout, number, columns))
        if group is None:
            return
        low, high = int(starts[number]), int(starts[number + 1])
        inside = (begin < high) & (end > low)
        if trace_id:
            hits = _rows_of_trace(group.column(CHQ_EXEMPLARS), trace_id) + low
            inside &= np.searchsorted(hits, end) > np.searchsorted(hits, begin)
        for place in np.flatnonzero(inside).tolist():
            first, last = max(int(begin[place]), low) - low, min(int(end[place]), high) - low
            rows = group.slice(first, last - first)
            labels = table.labels(int(numbers[place]))
            for series, exemplar in _exemplars(rows, labels, suffix, selection):
                if trace_id and trace_id not in _traces(exemplar):
                    continue
                total += 1
                if total > MAX_EXEMPLARS:
                    raise LimitExceededError(
                        f"more than {MAX_EXEMPLARS} exemplars: narrow the time range or the selector"
                    )
                found.setdefault(series, set()).add(exemplar)


def _rows_of_trace(column: pa.ChunkedArray, trace_id: str) -> Int64s:
    """Return the rows that have an exemplar with this id, as a field of its own or as a label."""
    lists = column.combine_chunks()
    exemplars, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
    ids = pc.struct_field(exemplars, "trace_id")
    is_hit = pc.is_in(ids, value_set=pa.array([bytes.fromhex(trace_id)], ids.type))
    labels = pc.struct_field(exemplars, "attributes")
    bounds = labels.offsets.to_numpy()
    owners = np.repeat(np.arange(len(labels)), np.diff(bounds))
    texts = labels.items.slice(bounds[0], bounds[-1] - bounds[0])
    is_named = pc.is_in(texts, value_set=pa.array([trace_id]))
    parents = rows.to_numpy()
    found: Int64s = np.union1d(
        parents[is_hit.to_numpy(zero_copy_only=False)],
        parents[owners[is_named.to_numpy(zero_copy_only=False)]],
    )
    return found


def _traces(exemplar: Exemplar) -> set[str]:
    return {value for name, value in exemplar.labels if name in TRACE_LABELS}


def _exemplars(
    rows: pa.Table, labels: Labels, suffix: str, selection: SeriesSelector
) -> Iterator[tuple[Labels, Exemplar]]:
    sent = rows.filter(rows.column(CHQ_EXEMPLARS).is_valid())
    own = [m for m in selection.matchers if m.name == LE]
    exact = any(m.name == NAME_LABEL and m.op is MatchOp.EQUAL for m in selection.matchers)
    bounds = (
        sent.column(CHQ_HIST_BOUNDS).to_pylist()
        if CHQ_HIST_BOUNDS in sent.column_names
        else [None] * sent.num_rows
    )
    for exemplars, edges in zip(sent.column(CHQ_EXEMPLARS).to_pylist(), bounds, strict=True):
        if (edges is None) if suffix else (edges is not None and not exact):
            continue
        for sample in exemplars:
            at = sample["tsns"] // NS_PER_MS if sample["tsns"] is not None else 0
            if not selection.from_ms < at <= selection.to_ms:
                continue
            exemplar = Exemplar(at, _value(sample), _labels(sample))
            series = _bucket(labels, edges, exemplar.value) if suffix else labels
            if not suffix or _matches(own, series):
                yield series, exemplar


def _value(sample: dict[str, object]) -> float:
    value = sample["value"] if sample["value"] is not None else sample["value_int"]
    return float(value) if isinstance(value, int | float) else float("nan")


def _labels(sample: dict[str, object]) -> Pairs:
    found: dict[str, str] = {str(k): str(v) for k, v in sample["attributes"] or []}  # type: ignore[attr-defined]
    for name in ("trace_id", "span_id"):
        raw = sample[name]
        if isinstance(raw, bytes) and raw.strip(b"\0"):
            found[name] = raw.hex()
    return tuple(sorted(found.items()))


def _bucket(labels: Labels, edges: Sequence[float], value: float) -> Labels:
    """Return the labels of the bucket that the value is in; upper bounds are inclusive."""
    place = bisect_left(edges, value)
    text = bound_text(edges[place]) if place < len(edges) else "+Inf"
    renamed = {name: value + BUCKET if name == NAME_LABEL else value for name, value in labels}
    return tuple(sorted((renamed | {LE: text}).items()))


def _matches(own: Sequence[Matcher], series: Labels) -> bool:
    text = dict(series)[LE]
    return all(match_texts(matcher, [text])[0] for matcher in own)
