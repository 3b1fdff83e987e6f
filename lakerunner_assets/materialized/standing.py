"""Derived samples of an hour are read back, so that records can be added.

    shop_took, shop_took_count, shop_took_min, shop_took_max of 12:00   →   the cells they were written of

A sum and what rounding took from it are the exact sum: with more records added it rounds as if all of them
had been counted at once. Where a third double would be needed the hour is derived whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.materialized.rule_cells import (
    BUCKET_NS,
    BUCKETS,
    NS_PER_MS,
    Numbers,
    RuleCells,
    RuleTask,
    SourceUnreadableError,
)
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.documents import Form
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Doubles, Int64s
from resources.lake import series
from resources.lake.columns import CHQ_TIMESTAMP, CHQ_VALUE_REST
from resources.lake.metric_values import VALUE_COLUMNS, values
from resources.lake.series import NAME_LABEL


class NotAddableError(Exception):
    """Records cannot be added to what stands; the hour has to be derived whole."""


@dataclass(frozen=True, slots=True)
class RuleStanding:
    """Facts of a rule and hour that its samples do not tell."""

    rule_id: int
    errors: int
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Metrics that were derived of an hour before records were added."""

    rules: tuple[RuleStanding, ...] = ()
    segments: tuple[SegmentRef, ...] = ()


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples of one metric, series by series."""

    labels: list[Labels] = field(default_factory=list)
    codes: list[Int64s] = field(default_factory=list)
    ends_ms: list[Int64s] = field(default_factory=list)
    values: list[Doubles] = field(default_factory=list)
    rests: list[Doubles] = field(default_factory=list)


def add_standing(
    cells: Mapping[int, RuleCells], rules: Sequence[RuleTask], standing: Standing, folder: Path
) -> None:
    """Add to the cells of each rule what stands of it."""
    samples: dict[str, _Samples] = {}
    for ref in standing.segments:
        _read(ref, folder, samples)
    facts = {one.rule_id: one for one in standing.rules}
    for rule in rules:
        mine, before = cells[rule.rule_id], facts[rule.rule_id]
        mine.errors += before.errors
        if f"more than {mine.most} series" in before.refusals:
            mine.overflow()
        mine.refusals |= set(before.refusals)
        forms = {form: samples.get(name, _Samples()) for form, name in rule.metric.series.items()}
        if forms[Form.COUNT].labels:
            _add(mine, forms)


def _read(ref: SegmentRef, folder: Path, samples: dict[str, _Samples]) -> None:
    path = folder / ref.key
    with path.open("rb") as file:
        file.seek(ref.series_offset)
        known = series.decode(file.read(ref.series_length), ref.rows)
    names = set(pq.read_schema(path).names)
    wanted = [CHQ_TIMESTAMP, *VALUE_COLUMNS, *({CHQ_VALUE_REST} & names)]
    table = pq.read_table(path, columns=wanted, use_threads=False).combine_chunks()
    columns = {name: table.column(name).chunk(0) for name in wanted}
    times, found = columns[CHQ_TIMESTAMP].to_numpy(), values(columns)
    if found.null_count:
        raise SourceUnreadableError(f"segment {ref.segment_id}: derived samples without a value")
    numbers = found.to_numpy()
    rests = _rests(columns.get(CHQ_VALUE_REST), len(times))
    for one in known:
        rows = slice(one.row, one.row + one.rows)
        mine = samples.setdefault(dict(one.labels)[NAME_LABEL], _Samples())
        mine.codes.append(np.full(one.rows, len(mine.labels)))
        mine.labels.append(tuple(pair for pair in one.labels if pair[0] != NAME_LABEL))
        mine.ends_ms.append(times[rows])
        mine.values.append(numbers[rows])
        mine.rests.append(rests[rows])


def _rests(column: pa.Array | None, count: int) -> Doubles:
    if column is None:
        return np.zeros(count)
    found: Doubles = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    return found


def _add(cells: RuleCells, forms: Mapping[Form, _Samples]) -> None:
    """Add the samples of a rule; all of its forms have the same cells."""
    counted = forms[Form.COUNT]
    cell = _cells(counted, counted.labels, cells.hour_ns)
    order = np.argsort(cell, kind="stable")
    numbers: Numbers | None = None
    if cells.with_values:
        columns: dict[Form, tuple[Doubles, Doubles]] = {}
        for form in (Form.SUM, Form.MIN, Form.MAX):
            other = forms[form]
            place = _cells(other, counted.labels, cells.hour_ns)
            by_cell = np.argsort(place, kind="stable")
            if not np.array_equal(place[by_cell], cell[order]):
                raise NotAddableError(f"the forms of a rule stand for different cells: {form}")
            columns[form] = np.concatenate(other.values)[by_cell], np.concatenate(other.rests)[by_cell]
        sums, rests = columns[Form.SUM]
        if np.isnan(rests).any():
            raise NotAddableError("a sum needs more than two doubles")
        two = np.flatnonzero(rests)
        places = np.concatenate((np.arange(len(sums)), two))
        parts = np.concatenate((sums, rests[two]))
        numbers = Numbers(places, parts, columns[Form.MIN][0], columns[Form.MAX][0])
    codes, buckets = np.divmod(cell[order], BUCKETS)
    counts = np.concatenate(counted.values)[order].astype(np.int64)
    cells.add_cells(counted.labels, codes, buckets, counts, numbers)


def _cells(samples: _Samples, labels: Sequence[Labels], hour_ns: int) -> Int64s:
    """Return the cells of samples, numbered by these label sets."""
    if not samples.labels:
        return np.zeros(0, np.int64)
    places = {each: number for number, each in enumerate(labels)}
    numbers = np.array([places.get(each, -1) for each in samples.labels], np.int64)
    buckets = (np.concatenate(samples.ends_ms) * NS_PER_MS - hour_ns) // BUCKET_NS - 1
    cells: Int64s = numbers[np.concatenate(samples.codes)] * BUCKETS + buckets
    return cells
