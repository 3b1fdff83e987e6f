"""Label sets become relations that rows are joined with: one row per stream or series, a column per label.

    id     l0      l1                       rows of the stream 17 have
    17     'web'   {'service_name': 'web'}  service_name 'web'

Ids are hashes of label sets. Segments in which one id means different label sets are joined apart; where that
is so within one segment, its series are told apart by their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakerunner_query.lakeql.tables import LakeTable
from lakerunner_query.worker.metrics.series_table import LabelSets, SeriesTable, expand_runs
from lakerunner_query.worker.tables.segments import OpenTable, TableReader
from resources.arrays import Int64s
from resources.lake.series import NAME_LABEL

Chosen = list[tuple[SeriesTable, Int64s]]
"""Series of tables."""


@dataclass(frozen=True, slots=True)
class LabelRelation:
    """A table with the columns `id` and those of labels."""

    table: pa.Table
    by_row: bool = False
    """True where a row also has the first row of the series, and the row behind its last."""


@dataclass(slots=True)
class _Group:
    """Segments in which an id means one label set."""

    known: dict[int, int] = field(default_factory=dict)
    """Numbers of label sets by id."""
    chosen: Chosen = field(default_factory=list)
    files: list[OpenTable] = field(default_factory=list)

    def agrees(self, sets: Mapping[int, int]) -> bool:
        return all(self.known.get(each, number) == number for each, number in sets.items())

    def add(self, series: SeriesTable, sets: Mapping[int, int]) -> None:
        new = [place for place, each in enumerate(series.tid.tolist()) if each not in self.known]
        self.chosen.append((series, np.array(new, np.int64)))
        self.known.update(sets)


def label_relations(
    table: LakeTable, labels: Mapping[str, str], files: Sequence[OpenTable], reader: TableReader
) -> Iterator[tuple[LabelRelation | None, list[OpenTable]]]:
    """Yield files that can be joined with one relation, and the relation; None where none is needed."""
    if not labels:
        yield None, list(files)
        return
    tables = reader.labels(table, [one.segment for one in files])
    numbers = reader.reader.shared.interner.numbers()
    groups: list[_Group] = []
    seen: dict[tuple[int, bytes], _Group] = {}
    for one in files:
        series = tables.get(one.segment.segment_id)
        if series is None:
            continue  # missing, as the reader has recorded
        if len(np.unique(series.tid)) < series.count:
            yield _by_row(table, labels, series), [one]
            continue
        key = id(series.sets), series.tid.tobytes()
        group = seen.get(key)
        if group is None:
            ids = numbers.of(series, np.arange(series.count)).tolist()
            sets = dict(zip(series.tid.tolist(), ids, strict=True))
            group = next((each for each in groups if each.agrees(sets)), None)
            if group is None:
                group = _Group()
                groups.append(group)
            group.add(series, sets)
            seen[key] = group
        group.files.append(one)
    for group in groups:
        yield LabelRelation(relation_of(table, labels, group.chosen)), group.files


def _by_row(table: LakeTable, labels: Mapping[str, str], series: SeriesTable) -> LabelRelation:
    found = relation_of(table, labels, [(series, np.arange(series.count))])
    found = found.append_column("first_row", pa.array(series.row))
    return LabelRelation(found.append_column("end_row", pa.array(series.row + series.rows)), by_row=True)


def relation_of(table: LakeTable, labels: Mapping[str, str], chosen: Chosen) -> pa.Table:
    """Return ids of series, and the columns of their labels."""
    left_out = NAME_LABEL if table.in_milliseconds else ""
    columns: dict[str, pa.Array] = {
        "id": pa.array(np.concatenate([series.tid[places] for series, places in chosen]), pa.int64())
    }
    for label, column in labels.items():
        parts = [
            _values(series.sets, label, places) if label else _maps(series.sets, places, left_out)
            for series, places in chosen
        ]
        columns[column] = pa.concat_arrays(parts)
    return pa.table(columns)


def _values(sets: LabelSets, label: str, places: Int64s) -> pa.Array:
    """Return the values of a label whose name is this one but for case, the first in order of names."""
    codes = np.full(len(places), -1, np.int32)
    for name in sorted(one for one in sets.names if one.lower() == label):
        codes = np.where(codes < 0, sets.codes(name)[places], codes)
    return sets.value_texts.take(pa.array(codes, mask=codes < 0))


def _maps(sets: LabelSets, places: Int64s, left_out: str) -> pa.MapArray:
    begin = sets.offsets[places].astype(np.int64)
    sizes = sets.offsets[places + 1].astype(np.int64) - begin
    entries = expand_runs(begin, sizes)
    keep = sets.keys[entries] != sets.names.get(left_out, -1)
    counts = np.concatenate(([0], np.cumsum(keep)))
    ends = np.concatenate(([0], np.cumsum(sizes)))
    entries = entries[keep]
    return pa.MapArray.from_arrays(
        pa.array(counts[ends].astype(np.int32)),
        sets.key_texts.take(pa.array(sets.keys[entries])),
        sets.value_texts.take(pa.array(sets.values[entries])),
    )
