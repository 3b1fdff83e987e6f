"""A merge turns sorted segments into as few as their size allows, in bounded memory.

    sources                      result, one segment of the target window
    a: 1 api F1, 3 web F2        1 api F1
    b: 2 api F1, 3 web F2        2 api F1
                                 3 web F2     the row that both have, once

Rows are told from each other by their whole sort key, which ends with the row id: the same record in two
sources is the same row. Of rollups two rows of one series and bucket cannot both be right and are an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lakerunner_assets.decode.naming import MAX_COLUMNS
from lakerunner_assets.segments.merge.contents import Contents, SeriesContents, StreamContents
from lakerunner_assets.segments.merge.keys import LogOrder, Order, RollupOrder, SampleOrder, SpanOrder
from lakerunner_assets.segments.merge.label_sets import SeriesUnion, StreamUnion, series_union, stream_union
from lakerunner_assets.segments.merge.layout import Layout, format_of, layout_of
from lakerunner_assets.segments.merge.output import CUTTERS, Output, Shape
from lakerunner_assets.segments.merge.request import (
    MergedSegment,
    MergeKind,
    MergeRequest,
    MergeResult,
    SourceError,
    Window,
)
from lakerunner_assets.segments.merge.rounds import ROUNDS_SHARE, Rounds, Rows
from lakerunner_assets.segments.merge.source import SORT_ORDERS, SORT_VERSION, Source, open_source
from lakerunner_assets.segments.order import MAX_GROUP_BYTES
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.frequency import ROLLUPS
from resources.lake.metric_values import VALUE_SQL, VALUE_SQL_KEY

_WITH_STREAMS = (MergeKind.LOGS, MergeKind.TRACES)


def merge(request: MergeRequest, max_columns: int = MAX_COLUMNS) -> MergeResult:
    """Write all rows of the sources, each to one segment; complete, or nothing is left behind."""
    if not request.sources:
        raise ValueError("a merge without sources")
    sources = [open_source(path, request.kind) for path in request.sources]
    _check(request, sources)
    layout = layout_of(sources, request.kind, max_columns)
    union = (stream_union if request.kind in _WITH_STREAMS else series_union)(sources)
    rounds = Rounds(
        sources,
        layout,
        _order(request.kind, union),
        request.memory_bytes // ROUNDS_SHARE,
        request.kind is MergeKind.ROLLUP,
    )
    shape = _shape(request, sources, layout, union)
    outputs = {window: _output(request, shape, window) for window in (*request.carve, request.target)}
    try:
        for rows in rounds:
            for window, own in _deal(rows, request):
                outputs[window].add(own)
        for output in outputs.values():
            output.close()
        segments = tuple(segment for output in outputs.values() for segment in output.segments)
        return _count(sources, segments, rounds.duplicates)
    except BaseException:
        for output in outputs.values():
            output.abandon()
        raise


def _count(sources: Sequence[Source], segments: tuple[MergedSegment, ...], duplicates: int) -> MergeResult:
    read = sum(source.rows for source in sources)
    written = sum(segment.facts.rows for segment in segments)
    if written + duplicates != read:
        raise RuntimeError(f"{read} rows read, {written} written and {duplicates} left out")
    return MergeResult(segments, read, written, duplicates)


def _check(request: MergeRequest, sources: Sequence[Source]) -> None:
    for source in sources:
        if (source.facts.org, source.facts.dataset) != (request.org, request.dataset):
            raise SourceError(
                source.path,
                f"of {source.facts.org}, {source.facts.dataset}: expected {request.org}, {request.dataset}",
            )
    for one, other in pairwise(sorted(request.carve, key=lambda window: window.start_ns)):
        if one.end_ns > other.start_ns:
            raise ValueError(f"{one} and {other} overlap: a row would belong to both")
    if request.target in request.carve:
        raise ValueError(f"{request.target} is the target and is carved out of it")


def _order(kind: MergeKind, union: StreamUnion | SeriesUnion) -> Order:
    if isinstance(union, StreamUnion):
        return LogOrder(union) if kind is MergeKind.LOGS else SpanOrder(union)
    return SampleOrder(union) if kind is MergeKind.SAMPLES else RollupOrder(union)


def _shape(
    request: MergeRequest, sources: Sequence[Source], layout: Layout, union: StreamUnion | SeriesUnion
) -> Shape:
    kind = request.kind
    width_ms = _width_ms(request.dataset) if kind is MergeKind.ROLLUP else 0

    def contents() -> Contents:
        if isinstance(union, StreamUnion):
            return StreamContents(kind, union)
        return SeriesContents(kind, union, width_ms)

    of_rollup = tuple(sorted({each for source in sources for each in source.facts.source_objects}))
    return Shape(
        format_of(sources, layout, kind),
        layout.label_map,
        {VALUE_SQL_KEY: VALUE_SQL.encode()} if kind is MergeKind.SAMPLES else {},
        SORT_VERSION,
        SORT_ORDERS[kind],
        of_rollup if kind is MergeKind.ROLLUP else None,
        contents,
        CUTTERS[kind],
        min(MAX_GROUP_BYTES, request.memory_bytes // 4 // (1 + len(request.carve))),
        request.target_bytes,
    )


def _width_ms(dataset: str) -> int:
    for rollup in ROLLUPS:
        if rollup.dataset == dataset:
            return rollup.frequency_ms
    raise ValueError(
        f"{dataset} is no dataset of rollups: expected one of {[each.dataset for each in ROLLUPS]}"
    )


def _output(request: MergeRequest, shape: Shape, window: Window) -> Output:
    def identity(part: int) -> SegmentIdentity:
        name = request.name(window, part)
        return SegmentIdentity(
            request.org, request.collector, request.dataset, window.start_ns, name, request.generation
        )

    return Output(shape, window, request.folder, identity)


def _deal(rows: Rows, request: MergeRequest) -> list[tuple[Window, Rows]]:
    """Deal rows to windows, in their order."""
    left = np.ones(len(rows), np.bool_)
    dealt: list[tuple[Window, Rows]] = []
    for window in request.carve:
        inside = (rows.times > window.start_ns) & (rows.times <= window.end_ns)
        left &= ~inside
        if inside.any():
            dealt.append((window, rows.take(np.flatnonzero(inside))))
    if left.all():
        return [(request.target, rows)]
    if left.any():
        dealt.append((request.target, rows.take(np.flatnonzero(left))))
    return dealt
