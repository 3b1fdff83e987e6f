"""Classic series are derived from rows of histograms and summaries.

    http_seconds{path="/"}  bounds [0.1, 0.5]  counts [1, 4, 2]  sum 3.2

    http_seconds_bucket{path="/", le="0.1"}   1
    http_seconds_bucket{path="/", le="0.5"}   5
    http_seconds_bucket{path="/", le="+Inf"}  7
    http_seconds_sum{path="/"}                3.2
    http_seconds_count{path="/"}              7

A stale marker ends all of them. Bounds may change from row to row: each row has series for its own bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Series
from lakerunner_query.worker.metrics.row_groups import FLOAT, HISTOGRAM, SUMMARIES, SUMMARY, is_stale
from lakerunner_query.worker.metrics.row_merge import MergedRows
from lakerunner_query.worker.metrics.series_table import expand_runs, match_texts
from resources.arrays import Doubles, Flags, Int64s
from resources.lake.sample_histograms import histograms_of_samples
from resources.lake.series import NAME_LABEL

BUCKET, SUM, COUNT, QUANTILE = "_bucket", "_sum", "_count", ""
SUFFIXES = (BUCKET, SUM, COUNT)
LE, QUANTILE_LABEL = "le", "quantile"


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Float samples of derived series, in any order."""

    labels: list[Labels]
    code: Int64s
    """Index into `labels`, by sample."""
    time_ms: Int64s
    value: Doubles
    is_delta: Flags | None


def derive(
    rows: MergedRows, labels: Sequence[Labels], suffix: str, own: Sequence[Matcher]
) -> Iterator[SampleBlock]:
    """Yield series with this suffix; `own` are the matchers on `le` or `quantile`."""
    if rows.derives is None or rows.kind is None:
        return
    if suffix in SUFFIXES:
        yield from _from_histograms(rows, labels, suffix, own)
    yield from _from_summaries(rows, labels, suffix, own)


def _from_histograms(
    rows: MergedRows, labels: Sequence[Labels], suffix: str, own: Sequence[Matcher]
) -> Iterator[SampleBlock]:
    assert rows.kind is not None  # noqa: S101 - for the type checker
    at = np.flatnonzero(rows.kind == HISTOGRAM)
    if not len(at) or rows.others is None or rows.place is None:
        return
    histograms = histograms_of_samples(_one_chunk(rows.others), pa.array(rows.place[at]))
    explicit = histograms.field("bounds").is_valid().to_numpy(zero_copy_only=False)
    explicit &= histograms.field("schema").is_null().to_numpy(zero_copy_only=False)
    at, histograms = at[explicit], histograms.filter(pa.array(explicit))
    if suffix == BUCKET:
        yield from _buckets(rows, at, histograms, labels, own)
        return
    if _excludes_absent(own):
        return
    numbers = histograms.field("sum" if suffix == SUM else "count")
    sent = numbers.is_valid().to_numpy(zero_copy_only=False)
    yield _one_per_row(rows, at[sent], numbers.drop_null().to_numpy(), labels, suffix, HISTOGRAM)


def _buckets(
    rows: MergedRows, at: Int64s, histograms: pa.StructArray, labels: Sequence[Labels], own: Sequence[Matcher]
) -> Iterator[SampleBlock]:
    bounds, counts = histograms.field("bounds"), histograms.field("counts")
    sizes = pc.list_value_length(bounds).to_numpy(zero_copy_only=False).astype(np.int64)
    have = pc.list_value_length(counts).fill_null(0).to_numpy(zero_copy_only=False) == sizes + 1
    at, sizes = at[have], sizes[have] + 1
    if not len(at):
        return
    complete = pa.array(have)
    bounds, counts = bounds.filter(complete), counts.filter(complete)
    ends = np.cumsum(sizes)
    upper = np.full(int(ends[-1]), np.inf)
    inner = np.ones(len(upper), np.bool_)
    inner[ends - 1] = False
    upper[inner] = bounds.flatten().to_numpy()
    running = np.concatenate(([0.0], np.cumsum(counts.flatten().to_numpy())))
    totals = running[1:] - np.repeat(running[ends - sizes], sizes)
    series = np.repeat(rows.series[at], sizes)
    keys = np.zeros(len(upper), [("series", np.int64), ("le", np.float64)])
    keys["series"], keys["le"] = series, upper
    known, code = np.unique(keys, return_inverse=True)
    code = code.ravel()
    texts = {le: bound_text(le) for le in np.unique(known["le"]).tolist()}
    passes = dict(zip(texts.values(), _match_all(own, list(texts.values())), strict=True))
    names = [
        _rename(labels[s], BUCKET, (LE, texts[le]))
        for s, le in zip(known["series"].tolist(), known["le"].tolist(), strict=True)
    ]
    time_ms = np.repeat(rows.time_ms[at], sizes)
    is_delta = None if rows.is_delta is None else np.repeat(rows.is_delta[at], sizes)
    # stale markers of a series end all its buckets
    stale = np.flatnonzero(_stale_rows(rows, HISTOGRAM))
    begin = np.searchsorted(known["series"], rows.series[stale], "left")
    each = np.searchsorted(known["series"], rows.series[stale], "right") - begin
    ended = expand_runs(begin, each)
    marks = np.repeat(rows.value[stale], each)
    block = SampleBlock(
        names,
        np.concatenate([code, ended]),
        np.concatenate([time_ms, np.repeat(rows.time_ms[stale], each)]),
        np.concatenate([totals, marks]),
        None if is_delta is None else np.concatenate([is_delta, np.zeros(len(ended), np.bool_)]),
    )
    passing = np.array([passes[texts[le]] for le in known["le"].tolist()], np.bool_)
    yield block if passing.all() else _filter(block, passing)


def _from_summaries(
    rows: MergedRows, labels: Sequence[Labels], suffix: str, own: Sequence[Matcher]
) -> Iterator[SampleBlock]:
    assert rows.kind is not None  # noqa: S101 - for the type checker
    at = np.flatnonzero(rows.kind == SUMMARY)
    if not len(at) or rows.others is None or rows.place is None or suffix == BUCKET:
        return
    table = _one_chunk(rows.others)
    places = pa.array(rows.place[at])
    if suffix in {SUM, COUNT}:
        if _excludes_absent(own):
            return
        histograms = histograms_of_samples(table, places)
        numbers = histograms.field("sum" if suffix == SUM else "count")
        sent = numbers.is_valid().to_numpy(zero_copy_only=False)
        yield _one_per_row(rows, at[sent], numbers.drop_null().to_numpy(), labels, suffix, SUMMARY)
        return
    listed = table.column(SUMMARIES).combine_chunks().take(places)
    sizes = pc.list_value_length(listed).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = listed.flatten()
    which = pairs.field("quantile").to_numpy(zero_copy_only=False)
    keys = np.zeros(len(which), [("series", np.int64), ("quantile", np.float64)])
    keys["series"], keys["quantile"] = np.repeat(rows.series[at], sizes), which
    known, code = np.unique(keys, return_inverse=True)
    texts = [bound_text(q) for q in known["quantile"].tolist()]
    names = [
        _rename(labels[s], "", (QUANTILE_LABEL, text))
        for s, text in zip(known["series"].tolist(), texts, strict=True)
    ]
    stale = np.flatnonzero(_stale_rows(rows, SUMMARY))
    begin = np.searchsorted(known["series"], rows.series[stale], "left")
    each = np.searchsorted(known["series"], rows.series[stale], "right") - begin
    block = SampleBlock(
        names,
        np.concatenate([code.ravel(), expand_runs(begin, each)]),
        np.concatenate([np.repeat(rows.time_ms[at], sizes), np.repeat(rows.time_ms[stale], each)]),
        np.concatenate(
            [pairs.field("value").to_numpy(zero_copy_only=False), np.repeat(rows.value[stale], each)]
        ),
        None,
    )
    passing = np.array(_match_all(own, texts), np.bool_)
    yield block if passing.all() else _filter(block, passing)


def _one_per_row(
    rows: MergedRows, at: Int64s, numbers: Doubles, labels: Sequence[Labels], suffix: str, kind: int
) -> SampleBlock:
    stale = np.flatnonzero(_stale_rows(rows, kind))
    both = np.concatenate([at, stale])
    codes = rows.series[both]
    known, code = np.unique(codes, return_inverse=True)
    return SampleBlock(
        [_rename(labels[series], suffix, None) for series in known.tolist()],
        code.ravel(),
        rows.time_ms[both],
        np.concatenate([numbers, rows.value[stale]]),
        None if rows.is_delta is None else rows.is_delta[both],
    )


def _stale_rows(rows: MergedRows, kind: int) -> Flags:
    assert rows.kind is not None and rows.derives is not None  # noqa: S101,PT018 - for the type checker
    found: Flags = (rows.kind == FLOAT) & (rows.derives == kind) & is_stale(rows.value)
    return found


def _filter(block: SampleBlock, passing: Flags) -> SampleBlock:
    keep = passing[block.code]
    places = np.cumsum(passing) - 1
    return SampleBlock(
        [labels for labels, ok in zip(block.labels, passing.tolist(), strict=True) if ok],
        places[block.code[keep]],
        block.time_ms[keep],
        block.value[keep],
        None if block.is_delta is None else block.is_delta[keep],
    )


def merge_blocks(blocks: Sequence[SampleBlock]) -> Series:
    """Make one series per label set; of two samples of one millisecond the later block's counts."""
    names = sorted({labels for block in blocks for labels in block.labels})
    codes = {labels: code for code, labels in enumerate(names)}
    series = np.concatenate(
        [np.array([codes[labels] for labels in b.labels], np.int64)[b.code] for b in blocks if len(b.code)]
        or [np.zeros(0, np.int64)]
    )
    time_ms = np.concatenate([block.time_ms for block in blocks])
    value = np.concatenate([block.value for block in blocks])
    deltas = any(block.is_delta is not None for block in blocks)
    is_delta = np.concatenate(
        [np.zeros(len(b.code), np.bool_) if b.is_delta is None else b.is_delta for b in blocks]
    )
    order = np.lexsort((~is_stale(value), time_ms, series))  # stable: real behind stale, later behind earlier
    series, time_ms = series[order], time_ms[order]
    keep = np.ones(len(order), np.bool_)
    keep[:-1] = (series[1:] != series[:-1]) | (time_ms[1:] != time_ms[:-1])
    offsets = np.zeros(len(names) + 1, np.int64)
    np.add.at(offsets, series[keep] + 1, 1)
    return Series(
        names,
        np.cumsum(offsets),
        time_ms[keep],
        value[order][keep],
        is_delta=is_delta[order][keep] if deltas else None,
    )


def merge_series(stored: Series, blocks: list[SampleBlock]) -> Series:
    """Merge stored and derived series."""
    derived = merge_blocks(blocks)
    if not stored.labels:
        return derived
    if stored.histograms is None:
        codes = np.repeat(np.arange(stored.count), np.diff(stored.offsets))
        block = SampleBlock(stored.labels, codes, stored.time_ms, stored.value, stored.is_delta)
        return merge_blocks([*blocks, block])
    clash = set(stored.labels) & set(derived.labels)
    if clash:
        at = next(iter(clash))
        raise EvaluationError(
            f"{label_set(at)}: stored as samples, and a classic series of a stored histogram too: "
            "name the metric exactly, or leave one of them out by its labels"
        )
    return _concatenate(stored, derived)


def _concatenate(first: Series, second: Series) -> Series:
    labels = [*first.labels, *second.labels]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    sizes = np.concatenate([np.diff(first.offsets), np.diff(second.offsets)])
    begins = np.concatenate([first.offsets[:-1], second.offsets[:-1] + len(first.time_ms)])
    chosen = np.array(order, np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes[chosen]))).astype(np.int64)
    index = expand_runs(begins[chosen], sizes[chosen])

    def both(
        a: npt.NDArray[np.generic] | None, b: npt.NDArray[np.generic] | None, nothing: object
    ) -> npt.NDArray[np.generic] | None:
        if a is None and b is None:
            return None
        kind = a.dtype if a is not None else b.dtype  # type: ignore[union-attr]
        left = np.full(len(first.time_ms), nothing, kind) if a is None else a
        right = np.full(len(second.time_ms), nothing, kind) if b is None else b
        return np.concatenate([left, right])[index]

    return Series(
        [labels[place] for place in order],
        offsets,
        np.concatenate([first.time_ms, second.time_ms])[index],
        np.concatenate([first.value, second.value])[index],
        both(first.histograms, second.histograms, None),  # type: ignore[arg-type]
        both(first.is_delta, second.is_delta, False),  # type: ignore[arg-type]
        both(first.start_ms, second.start_ms, 0),  # type: ignore[arg-type]
    )


def bound_text(number: float) -> str:
    """Render a bound or quantile as label value: the shortest exact digits, never an exponent.

    >>> bound_text(0.5), bound_text(10.0), bound_text(float("inf")), bound_text(1e-7), bound_text(1e21)
    ('0.5', '10', '+Inf', '0.0000001', '1000000000000000000000')
    """
    if np.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if np.isnan(number):
        return "NaN"
    return np.format_float_positional(number, unique=True, trim="-")


def _rename(labels: Labels, suffix: str, more: tuple[str, str] | None) -> Labels:
    found = dict(labels)
    found[NAME_LABEL] = found.get(NAME_LABEL, "") + suffix
    if more is not None:
        found[more[0]] = more[1]
    return tuple(sorted(found.items()))


def _match_all(own: Sequence[Matcher], texts: list[str]) -> list[bool]:
    found = [True] * len(texts)
    for matcher in own:
        found = [a and b for a, b in zip(found, match_texts(matcher, texts), strict=True)]
    return found


def _excludes_absent(own: Sequence[Matcher]) -> bool:
    """Tell whether a matcher on `le` or `quantile` requires a label that this series lacks."""
    return not all(_match_all(own, [""]))


def _one_chunk(table: pa.Table) -> pa.Table:
    return table.combine_chunks()
