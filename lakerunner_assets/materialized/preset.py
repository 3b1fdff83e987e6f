"""The preset of span metrics and service graph, with the names of Tempo's metrics generator.

A cell becomes one sample of delta temporality for each metric of its family, at the end of its bucket: the
sum of the samples in a window is the number of spans that began in it, over hours and rebuilds. Durations are
histograms whose points carry the longest duration of their bucket as exemplar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakerunner_assets.materialized.cells import (
    BOUNDS,
    BUCKET_NS,
    NS_PER_MS,
    Cells,
    Durations,
    Observations,
    cells_of,
    merge_cells,
)
from lakerunner_assets.materialized.edges import CONNECTIONS, Edges, edges_of, without_repeats
from lakerunner_assets.materialized.spans import KINDS, NONE, STATUSES, Hour, Spans, Texts, read_slices
from resources.arrays import Flags
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNTS,
    CHQ_HIST_MAX,
    CHQ_HIST_SUM,
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_SERIES,
    CHQ_START_TSNS,
    CHQ_TID,
    CHQ_TIMESTAMP,
    CHQ_VALUE,
    Segments,
    column,
)
from resources.lake.series import NAME_LABEL
from resources.lake.streams import canonical, labels_to_text, stream_id
from resources.lake.timecut import SECOND_NS

ORIGIN = "span-metrics@1"
"""Origin of the segments; a change of what is derived takes the next number."""
MAX_NAMES = 5_000
"""Pairs of service and span name in an hour; the rarest others are counted together."""
OTHER_NAMES = "__overflow__"
NO_OBJECT = 0
"""Raw object of derived rows: they have none."""
COUNT, FAILED, SIZE, FIRST_DURATION, SECOND_DURATION = range(5)


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    of: int
    """Number of a cell that is its value."""
    unit: str
    description: str


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics with the same labels."""

    labels: tuple[str, ...]
    metrics: tuple[Metric, ...]


_EDGE = ("client", "server", "connection_type")
_GRAPH = "traces_service_graph"
SPANS = Family(
    ("service", "span_name", "span_kind", "status_code"),
    (
        Metric("traces_spanmetrics_calls_total", COUNT, "", "Spans"),
        Metric("traces_spanmetrics_size_total", SIZE, "By", "Estimated bytes of spans"),
        Metric("traces_spanmetrics_latency", FIRST_DURATION, "s", "Duration of spans"),
    ),
)
EDGES = Family(
    _EDGE,
    (
        Metric(f"{_GRAPH}_request_total", COUNT, "", "Requests between two services"),
        Metric(f"{_GRAPH}_request_failed_total", FAILED, "", "Requests of which an end is an error"),
        Metric(f"{_GRAPH}_request_server_seconds", FIRST_DURATION, "s", "Duration at the server"),
        Metric(f"{_GRAPH}_request_client_seconds", SECOND_DURATION, "s", "Duration at the client"),
    ),
)
UNPAIRED = Family(
    _EDGE, (Metric(f"{_GRAPH}_unpaired_spans_total", COUNT, "", "Spans whose other end is missing"),)
)
FAMILIES = (SPANS, EDGES, UNPAIRED)


def derive(hour: Hour) -> tuple[list[pa.Table], int]:
    """Return the samples of an hour, in the form of decoded metrics, and the number of its spans."""
    texts = Texts()
    found: tuple[list[Cells], ...] = ([], [], [])
    spans = 0
    for part in read_slices(hour, texts):
        distinct = without_repeats(part)
        own = distinct.take(distinct.is_own)
        edges = edges_of(distinct, texts)
        spans += len(own)
        for cells, seen in zip(
            found,
            (
                _span_observations(own),
                _edge_observations(edges, paired=True),
                _edge_observations(edges, paired=False),
            ),
            strict=True,
        ):
            if len(seen.start_ns):
                cells.append(cells_of(seen))
    return list(_tables(found, texts)), spans


def _span_observations(spans: Spans) -> Observations:
    keys = np.column_stack([spans.service, spans.name, spans.kind, spans.status])
    failed = np.zeros(len(spans), np.bool_)  # the status is a label
    return Observations(
        keys, spans.start_ns, failed, spans.size, (spans.duration_ns,), spans.trace, spans.span
    )


def _edge_observations(edges: Edges, *, paired: bool) -> Observations:
    chosen = edges.take(edges.is_paired == paired)
    keys = np.column_stack([chosen.client, chosen.server, chosen.connection])
    durations = (chosen.server_ns, chosen.client_ns) if paired else ()
    return Observations(
        keys, chosen.start_ns, chosen.failed, np.zeros(len(chosen)), durations, chosen.trace, chosen.span
    )


def _tables(found: Sequence[Sequence[Cells]], texts: Texts) -> Iterator[pa.Table]:
    other = texts.code(OTHER_NAMES)
    known = [*texts.all(), ""]  # the last one is that of NONE
    kinds = [f"SPAN_KIND_{kind.upper()}" for kind in KINDS]
    statuses = [f"STATUS_CODE_{status.upper()}" for status in STATUSES]
    values = ((known, known, kinds, statuses), (known, known, CONNECTIONS), (known, known, CONNECTIONS))
    position = 0
    for family, parts, names in zip(FAMILIES, found, values, strict=True):
        if parts:
            cells = merge_cells(parts)
            if family is SPANS:
                cells = limit_names(cells, other, MAX_NAMES)
            for table in samples(family, cells, names, position):
                position += table.num_rows
                yield table


def limit_names(cells: Cells, other: int, most: int) -> Cells:
    """Count the rarest span names together, by service, where there are more than `most`."""
    pairs, pair = np.unique(cells.keys[:, :2], axis=0, return_inverse=True)
    if len(pairs) <= most:
        return cells
    totals = np.bincount(pair.ravel(), weights=cells.count, minlength=len(pairs))
    rare = np.ones(len(pairs), np.bool_)
    rare[np.argsort(-totals, kind="stable")[:most]] = False
    keys = cells.keys.copy()
    keys[rare[pair.ravel()], 1] = other
    return merge_cells([replace(cells, keys=keys)])


def samples(
    family: Family, cells: Cells, values: Sequence[Sequence[str]], position: int
) -> Iterator[pa.Table]:
    """Yield the samples of each metric; `values` are the texts of the labels by their codes."""
    sets, series = np.unique(cells.keys[:, :-1], axis=0, return_inverse=True)
    labels = [
        {name: texts[code] for name, texts, code in zip(family.labels, values, codes, strict=True)}
        for codes in sets.tolist()
    ]
    for metric in family.metrics:
        columns, there = _values(metric, cells)
        rows = np.flatnonzero(there)
        if len(rows):
            named = [canonical({NAME_LABEL: metric.name, **each}) for each in labels]
            code = series.ravel()[rows]
            ends_ms = cells.keys[rows, -1]
            texts = pa.array([labels_to_text(each) for each in named])
            tids = np.array([stream_id(each) for each in named], np.int64)
            yield pa.table(
                {
                    "metric_name": _repeated(metric.name, len(rows)),
                    CHQ_TID: tids[code],
                    CHQ_TIMESTAMP: ends_ms,
                    CHQ_OBJECT: np.full(len(rows), NO_OBJECT),
                    CHQ_POSITION: np.arange(position, position + len(rows)),
                    CHQ_SERIES: pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), texts),
                    CHQ_START_TSNS: ends_ms * NS_PER_MS - BUCKET_NS,
                    "metric_temporality": _repeated("delta", len(rows)),
                    "metric_description": _repeated(metric.description, len(rows)),
                    **({"metric_unit": _repeated(metric.unit, len(rows))} if metric.unit else {}),
                    **{name: each.take(pa.array(rows)) for name, each in columns.items()},
                }
            )
            position += len(rows)


def _values(metric: Metric, cells: Cells) -> tuple[dict[str, pa.Array], Flags]:
    """Return the columns of a metric by cell, and which cells have a sample."""
    if metric.of >= FIRST_DURATION:
        return _histograms(cells.durations[metric.of - FIRST_DURATION])
    numbers = (cells.count, cells.failed, np.rint(cells.size).astype(np.int64))[metric.of]
    columns = {
        CHQ_METRIC_TYPE: _repeated("sum", len(cells)),
        CHQ_VALUE: pa.array(numbers.astype(np.float64)),
        "metric_is_monotonic": pa.array(np.ones(len(cells), np.bool_)),
    }
    return columns, numbers > 0


def _histograms(found: Durations) -> tuple[dict[str, pa.Array], Flags]:
    count = len(found.sum_ns)
    totals = found.buckets.sum(axis=1)
    width = len(BOUNDS)
    columns = {
        CHQ_METRIC_TYPE: _repeated("histogram", count),
        CHQ_HIST_COUNT: pa.array(totals),
        CHQ_HIST_SUM: pa.array(found.sum_ns / SECOND_NS),
        CHQ_HIST_MAX: pa.array(found.worst_ns / SECOND_NS),
        CHQ_HIST_BOUNDS: pa.ListArray.from_arrays(_offsets(count, width), pa.array(np.tile(BOUNDS, count))),
        CHQ_HIST_COUNTS: pa.ListArray.from_arrays(
            _offsets(count, width + 1), pa.array(found.buckets.ravel())
        ),
        CHQ_EXEMPLARS: _exemplars(found),
    }
    return columns, totals > 0


def _exemplars(found: Durations) -> pa.Array:
    """Return one exemplar by cell; one without a trace is none."""
    kind = column(CHQ_EXEMPLARS, Segments.METRICS).type
    have = found.worst_trace.any(axis=1) & (found.worst_ns != NONE)
    rows = np.flatnonzero(have)
    values = {
        "tsns": pa.array(found.worst_at_ns[rows]),
        "value": pa.array(found.worst_ns[rows] / SECOND_NS),
        "trace_id": _binary(found.worst_trace[rows], 16),
        "span_id": _binary(found.worst_span[rows], 8),
    }
    members = [values.get(member.name, pa.nulls(len(rows), member.type)) for member in kind.value_type]
    structs = pa.StructArray.from_arrays(members, fields=list(kind.value_type))
    offsets = np.concatenate(([0], np.cumsum(have))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, mask=pa.array(~have))


def _binary(words: np.ndarray, width: int) -> pa.Array:
    raw = np.ascontiguousarray(words.astype(">u8"))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(words), [None, pa.py_buffer(raw)])


def _offsets(count: int, width: int) -> pa.Array:
    return pa.array(np.arange(count + 1, dtype=np.int32) * width)


def _repeated(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [text])
