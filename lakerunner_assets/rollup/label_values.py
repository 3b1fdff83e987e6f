"""A series table yields distinct ids and label values per metric.

    tid  labels                            distinct_series      distinct_values
    1    up{instance="a", job="x"}    →    up  [1, 2]           up  instance  [a, b]
    2    up{instance="b", job="x"}                              up  job       [x]

Texts are compared as numbers: the table codes them, and the codes are replaced by ranks. Everything comes
in order of metric, label and value, so equal tables feed sketches alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.arrays import Int64s
from resources.lake.series import NAME_LABEL

STEP = 1 << 17
"""Series at a time, which bounds memory."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The distinct texts of a column in order, and the place of each entry."""

    texts: pa.Array
    codes: Int64s

    def position(self, text: str) -> int:
        """Return the place of a text, -1 if no entry can be it."""
        return int(pc.index(self.texts, text).as_py())


@dataclass(frozen=True, slots=True)
class LabelSets:
    """All label sets of a table: set n has the entries `[ends[n], ends[n + 1])`."""

    ends: Int64s
    labels: Texts
    values: Texts


def distinct_series(table: pa.Table) -> Iterator[tuple[str, list[int]]]:
    """Yield per metric the ids of its series."""
    if table.num_rows == 0:
        return
    sets = _label_sets(table)
    metrics = np.concatenate([_metrics(sets, start, stop) for start, stop in _steps(table.num_rows)])
    ids = table.column("tid").to_numpy()
    order = np.lexsort((ids, metrics))
    ids, metrics = ids[order], metrics[order]
    for start, stop in _runs(metrics):
        yield _name(sets, metrics[start]), ids[start:stop].tolist()


def distinct_values(table: pa.Table) -> Iterator[tuple[str, str, list[str]]]:
    """Yield per metric and label its values; a label may come again in a later step."""
    if table.num_rows == 0:
        return
    sets = _label_sets(table)
    name_label = sets.labels.position(NAME_LABEL)
    for start, stop in _steps(table.num_rows):
        entries = slice(sets.ends[start], sets.ends[stop])
        labels, values = sets.labels.codes[entries], sets.values.codes[entries]
        metrics = np.repeat(_metrics(sets, start, stop), np.diff(sets.ends[start : stop + 1]))
        others = labels != name_label
        yield from _group(sets, metrics[others], labels[others], values[others])


def _group(
    sets: LabelSets, metrics: Int64s, labels: Int64s, values: Int64s
) -> Iterator[tuple[str, str, list[str]]]:
    """Group values by metric and label; a metric of -1 has no name."""
    width, depth = len(sets.labels.texts), len(sets.values.texts)
    # ranks are below 2^31, so that two of them fit; all three might not
    pairs, pair = np.unique((metrics + 1) * width + labels, return_inverse=True)
    found = np.unique(pair * depth + values)
    for start, stop in _runs(found // depth):
        metric, label = divmod(int(pairs[found[start] // depth]), width)
        texts = sets.values.texts.take(pa.array(found[start:stop] % depth))
        yield _name(sets, metric - 1), sets.labels.texts[label].as_py(), texts.to_pylist()


def _metrics(sets: LabelSets, start: int, stop: int) -> Int64s:
    """Return the name of each set as a rank among values, -1 without one."""
    entries = slice(sets.ends[start], sets.ends[stop])
    places = np.flatnonzero(sets.labels.codes[entries] == sets.labels.position(NAME_LABEL)) + sets.ends[start]
    metrics = np.full(stop - start, -1, np.int64)
    metrics[np.searchsorted(sets.ends[start : stop + 1], places, "right") - 1] = sets.values.codes[places]
    return metrics


def _name(sets: LabelSets, metric: int | np.int64) -> str:
    return str(sets.values.texts[int(metric)].as_py()) if metric >= 0 else ""


def _label_sets(table: pa.Table) -> LabelSets:
    column = table.column("labels").combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    ends = column.offsets.to_numpy().astype(np.int64)
    first, behind = int(ends[0]), int(ends[-1])
    labels, values = (_texts(side.slice(first, behind - first)) for side in (column.keys, column.items))
    return LabelSets(ends - first, labels, values)


def _texts(column: pa.Array) -> Texts:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.null_count or column.dictionary.null_count:
        raise ValueError("series table: a label without name or value")
    # dictionaries joined from several files may hold a text twice: such entries get one rank
    ranks = pc.rank(column.dictionary, "ascending", tiebreaker="dense").to_numpy().astype(np.int64) - 1
    _, places = np.unique(ranks, return_index=True)
    return Texts(column.dictionary.take(pa.array(places)), ranks[column.indices.to_numpy()])


def _steps(rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + STEP, rows)) for start in range(0, rows, STEP))


def _runs(codes: Int64s) -> Iterator[tuple[int, int]]:
    """Yield (first, behind) of each run of equal codes."""
    borders = np.flatnonzero(np.diff(codes)) + 1
    return zip([0, *borders.tolist()] if len(codes) else [], [*borders.tolist(), len(codes)], strict=False)
