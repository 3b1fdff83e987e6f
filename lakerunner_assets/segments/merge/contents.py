"""Facts of an output file are collected row group by row group.

Everything here is what the ordinary writers compute from all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.logs import levels_of, log_terms
from lakerunner_assets.segments.logs import token_columns as log_tokens
from lakerunner_assets.segments.merge.label_sets import SeriesUnion, StreamUnion
from lakerunner_assets.segments.merge.layout import VALUE
from lakerunner_assets.segments.merge.merge_kernels import add_facts, run_starts
from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.merge.rounds import Rows
from lakerunner_assets.segments.metric_values import JOINED_ROWS, Splitter
from lakerunner_assets.segments.metrics import derived_names, exemplar_ids, terms_of_values
from lakerunner_assets.segments.series_order import NS_PER_MS
from lakerunner_assets.segments.trace_summaries import SummaryWriter
from lakerunner_assets.segments.traces import span_terms, term_values
from lakerunner_assets.segments.traces import token_columns as span_tokens
from resources.arrays import Int32s, Int64s
from resources.lake import series, streams
from resources.lake.columns import CHQ_OBJECT, CHQ_TIMESTAMP
from resources.lake.streams import Stream


@dataclass(frozen=True, slots=True)
class Summary:
    """Blocks, terms and bounds of a whole file."""

    table: bytes
    """Bytes of the series or stream table."""
    bloom: bytes
    terms: tuple[int, ...]
    label_names: tuple[str, ...]
    metric_names: tuple[str, ...]
    min_ns: int
    max_ns: int
    traces: bytes = b""
    """Trace summaries of a span segment."""


class Contents(Protocol):
    """The facts of one output file while it grows."""

    def add(self, rows: Rows) -> pa.Table:
        """Note a row group; return it as it is stored."""

    def summary(self) -> Summary:
        """Summarise the file once all row groups are there."""


class StreamContents:
    """Facts of log and span segments."""

    def __init__(self, kind: MergeKind, union: StreamUnion) -> None:
        self._is_logs, self._union = kind is MergeKind.LOGS, union
        self._facts = np.zeros((len(union), 3), np.int64)
        self._bloom = token_bloom.Builder()
        self._values: dict[str, set[str]] = {}
        self._traces = SummaryWriter()

    def add(self, rows: Rows) -> pa.Table:
        table = rows.table
        if not self._is_logs:
            self._traces.add(table)
        add_facts(self._facts, rows.codes, rows.times)
        self._bloom.add((log_tokens if self._is_logs else span_tokens)(table))
        found = {"log_level": levels_of(table)} if self._is_logs else term_values(table)
        for name, texts in found.items():
            self._values.setdefault(name, set()).update(texts)
        return table

    def summary(self) -> Summary:
        present = np.flatnonzero(self._facts[:, 0])
        found = [
            Stream(int(self._union.ids[code]), self._union.labels[code], *self._facts[code].tolist())
            for code in present.tolist()
        ]
        label_sets = [stream.labels for stream in found]
        values = self._values
        return Summary(
            streams.encode(found),
            self._bloom.finish().to_bytes(),
            log_terms(values["log_level"], label_sets) if self._is_logs else span_terms(values, label_sets),
            tuple(sorted({name for labels in label_sets for name, _ in labels})),
            (),
            int(self._facts[present, 1].min()),
            int(self._facts[present, 2].max()),
            self._traces.finish(),
        )


class SeriesContents:
    """Facts of sample and rollup segments."""

    def __init__(self, kind: MergeKind, union: SeriesUnion, width_ms: int) -> None:
        """`width_ms` is that of the buckets of a rollup."""
        joined = int(union.rows.sum()) >= JOINED_ROWS * len(union)
        self._splitter = Splitter(union.exponent, joined) if kind is MergeKind.SAMPLES else None
        self._union, self._width_ms = union, width_ms
        self._bloom = token_bloom.Builder()
        self._names: set[str] = set()
        self._labels: set[str] = set()
        self._runs: list[_Runs] = []

    def add(self, rows: Rows) -> pa.Table:
        starts = run_starts(rows.codes)
        ends = np.append(starts[1:], len(rows)) - 1
        codes, counts = rows.codes[starts], ends - starts + 1
        base, exponent = np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64)
        table = rows.table
        if self._splitter is not None:
            split = self._splitter.split(table.column(VALUE).chunk(0), codes, counts)
            table, base, exponent = _with_values(table, split.columns), split.base, split.exponent
        names, labels = derived_names(table)
        self._names |= names
        self._labels |= labels
        self._bloom.add(exemplar_ids(table))
        self._runs.append(_Runs(codes, counts, rows.times[starts], rows.times[ends], base, exponent))
        return table

    def summary(self) -> Summary:
        runs = _concatenate(self._runs)
        union = self._union
        labels = union.labels.take(runs.codes.astype(np.int64))
        values = labels.values_by_name()
        stored = [union.names[place] for place in np.unique(union.name[runs.codes]).tolist()]
        self._bloom.add([pa.array({text for texts in values.values() for text in texts}, pa.string())])
        numbers = {
            "tid": union.tid[runs.codes],
            "row": np.concatenate(([0], np.cumsum(runs.rows)[:-1])),
            "rows": runs.rows,
            "first_ms": runs.first_ns // NS_PER_MS,
            "last_ms": runs.last_ns // NS_PER_MS,
            "base": runs.base,
            "exponent": runs.exponent,
        }
        columns = {"labels": labels.map_array(), **{name: pa.array(each) for name, each in numbers.items()}}
        arrays = [columns[field.name].cast(field.type) for field in series.SCHEMA]
        min_ns, max_ns = int(runs.first_ns.min()), int(runs.last_ns.max())
        if self._width_ms:
            min_ns -= (self._width_ms - 1) * NS_PER_MS
        return Summary(
            series.encode(pa.Table.from_arrays(arrays, schema=series.SCHEMA)),
            self._bloom.finish().to_bytes(),
            terms_of_values({*self._names, *stored}, values, self._labels),
            tuple(sorted(values.keys() | self._labels)),
            tuple(stored),
            min_ns,
            max_ns,
        )


@dataclass(frozen=True, slots=True)
class _Runs:
    """Series of a row group, in order."""

    codes: Int32s
    rows: Int64s
    first_ns: Int64s
    last_ns: Int64s
    base: Int64s
    exponent: Int64s


def _concatenate(parts: list[_Runs]) -> _Runs:
    """Join the runs of all row groups; a series that goes on in the next one is one run."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _Runs.__slots__}
    starts = run_starts(columns["codes"])
    ends = np.append(starts[1:], len(columns["codes"])) - 1
    return _Runs(
        columns["codes"][starts],
        np.add.reduceat(columns["rows"], starts),
        columns["first_ns"][starts],
        columns["last_ns"][ends],
        columns["base"][starts],
        columns["exponent"][starts],
    )


def _with_values(table: pa.Table, values: dict[str, pa.Array]) -> pa.Table:
    """Replace the value by its four columns behind the timestamp, as in a file."""
    columns = {name: table.column(name) for name in table.column_names if name != VALUE}
    items = list(columns.items())
    place = list(columns).index(CHQ_TIMESTAMP) + 1
    return pa.table(dict([*items[:place], *values.items(), *items[place:]]))


def source_objects(table: pa.Table) -> set[int]:
    return set(pc.unique(table.column(CHQ_OBJECT)).to_pylist())
