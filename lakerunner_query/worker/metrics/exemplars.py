"""Exemplars: single measurements with their trace, beside the samples of a series.

A histogram with explicit buckets has those of each bucket at `_bucket{le}`, as Prometheus does, and all at
its own name if asked for exactly; other series have theirs at their own name. What an exporter sent again
with every export is one exemplar.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.answers import LATE_MS, Exemplar, ExemplarAnswer, Pairs, SeriesExemplars
from lakerunner_query.protocol.units import ExemplarUnit, SegmentRef, Selection, UnitReport
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.derived import BUCKET, LE, spelled
from lakerunner_query.worker.metrics.opening import MetricOpener, Reading, Shape
from lakerunner_query.worker.metrics.row_groups import DAMAGE
from lakerunner_query.worker.metrics.series_table import SeriesTable, verdicts
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.lake.series import NAME_LABEL

COLUMN, BOUNDS = "chq_exemplars", "chq_hist_bounds"
MAX_EXEMPLARS = 100_000
NS_PER_MS = 1_000_000
Found = dict[Labels, set[Exemplar]]


class ExemplarReader:
    """Everything a worker process shares between such questions."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: ExemplarUnit, cancellation: Cancellation) -> ExemplarAnswer:
        found: Found = {}
        with self._opener.reading(cancellation) as reading:
            for segment, table in reading.tables(unit.segments):
                self._look_into(reading, segment, table, unit.selections, found)
            report = UnitReport(
                missing=tuple(reading.missing.values()),
                segments_opened=len(reading.opened),
                bytes_fetched=reading.bytes_fetched,
            )
        ordered = sorted(found.items())
        return ExemplarAnswer(
            tuple(SeriesExemplars(labels, tuple(sorted(each))) for labels, each in ordered if each), report
        )

    def _look_into(
        self,
        reading: Reading,
        segment: SegmentRef,
        table: SeriesTable,
        selections: Sequence[Selection],
        found: Found,
    ) -> None:
        for selection in selections:
            for suffix in ("", BUCKET):
                stored = [m for m in selection.matchers if not (suffix and m.name == LE)]
                overlapping = table.overlapping(selection.from_ms, selection.to_ms + LATE_MS)
                wanted = np.flatnonzero(table.matching(stored, suffix) & overlapping)
                if not len(wanted):
                    continue
                path = reading.paths([segment]).get(segment.segment_id)
                shape = None if path is None else reading.shape(segment, path)
                if path is None or shape is None or COLUMN not in shape.columns:
                    return
                try:
                    _collect(reading, path, shape, table, wanted, selection, suffix, found)
                except DAMAGE as error:
                    reading.damaged(segment, str(error))
                    return


def _collect(
    reading: Reading,
    path: Path,
    shape: Shape,
    table: SeriesTable,
    wanted: Int64s,
    selection: Selection,
    suffix: str,
    found: Found,
) -> None:
    begin, end = table.row[wanted], table.row[wanted] + table.rows[wanted]
    columns = [COLUMN, *({BOUNDS} & shape.columns)]
    total = sum(map(len, found.values()))
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            low, high = int(shape.starts[number]), int(shape.starts[number + 1])
            here = np.flatnonzero((begin < high) & (end > low))
            if not len(here):
                continue
            reading.cancellation.check()
            group = file.read_row_group(number, columns, use_threads=False)
            for place in here.tolist():
                first, last = max(int(begin[place]), low) - low, min(int(end[place]), high) - low
                rows = group.slice(first, last - first)
                labels = table.labels(int(wanted[place]))
                for series, exemplar in _of_rows(rows, labels, suffix, selection):
                    total += 1
                    if total > MAX_EXEMPLARS:
                        raise LimitExceededError(
                            f"more than {MAX_EXEMPLARS} exemplars: narrow the time range or the selector"
                        )
                    found.setdefault(series, set()).add(exemplar)


def _of_rows(
    rows: pa.Table, labels: Labels, suffix: str, selection: Selection
) -> Iterator[tuple[Labels, Exemplar]]:
    sent = rows.filter(rows.column(COLUMN).is_valid())
    own = [m for m in selection.matchers if m.name == LE]
    exact = any(m.name == NAME_LABEL and m.op is MatchOp.EQUAL for m in selection.matchers)
    bounds = sent.column(BOUNDS).to_pylist() if BOUNDS in sent.column_names else [None] * sent.num_rows
    for exemplars, edges in zip(sent.column(COLUMN).to_pylist(), bounds, strict=True):
        if (edges is None) if suffix else (edges is not None and not exact):
            continue
        for sample in exemplars:
            at = sample["tsns"] // NS_PER_MS if sample["tsns"] is not None else 0
            if not selection.from_ms < at <= selection.to_ms:
                continue
            exemplar = Exemplar(at, _value(sample), _labels(sample))
            series = _bucket(labels, edges, exemplar.value) if suffix else labels
            if not suffix or _satisfied(own, series):
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
    """The series of the bucket that the value is in; buckets hold their upper bound."""
    place = bisect_left(edges, value)
    text = spelled(edges[place]) if place < len(edges) else "+Inf"
    renamed = {name: value + BUCKET if name == NAME_LABEL else value for name, value in labels}
    return tuple(sorted((renamed | {LE: text}).items()))


def _satisfied(own: Sequence[Matcher], series: Labels) -> bool:
    text = dict(series)[LE]
    return all(verdicts(matcher, [text])[0] for matcher in own)
