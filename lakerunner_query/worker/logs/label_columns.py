"""Labels of scanned rows as dictionary-coded columns: those of their streams, then structured metadata.

A resource attribute that became a stream label is not repeated; any other clash with a stream label gets the
suffix `_extracted`. Work happens per distinct value and per stream; rows are touched through codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import ABSENT, Category, Column, coded
from lakerunner_query.worker.logs.sources import EXTRACTED, RESOURCE, Source, loki_name, sources_of
from lakerunner_query.worker.segment_facts import Footer
from resources.arrays import Flags, Int32s
from resources.lake.segment_file import OVERFLOW_COLUMNS


@dataclass(frozen=True, slots=True)
class Scanned:
    """Rows of a scan with what is needed to name their values."""

    rows: pa.Table
    """Physical columns by name; what is not there was not asked for."""
    files: Int32s
    """Index into `footers`, per row."""
    ranks: Int32s
    """Index into `labels`, per row."""
    footers: Sequence[Footer]
    labels: Sequence[Mapping[str, str]]
    """Label sets of streams."""


Columns = dict[str, Column]


def label_columns(scanned: Scanned, names: Collection[str] | None = None) -> Columns:
    """All labels of the rows, or those that are asked for."""
    found = stream_columns(scanned, names)
    asked = None if names is None else {*names, *(name.removesuffix(EXTRACTED) for name in names)}
    for name, sources in _by_name(scanned, asked).items():
        for label, column in _metadata(name, sources, scanned):
            found[label] = beneath(found[label], column) if label in found else column
    _spill(scanned, asked, found)
    return found


def stream_columns(scanned: Scanned, names: Collection[str] | None = None) -> Columns:
    known = {name for labels in scanned.labels for name in labels}
    found: Columns = {}
    for name in sorted(known if names is None else known.intersection(names)):
        values = list(dict.fromkeys(labels[name] for labels in scanned.labels if name in labels))
        code = {value: number for number, value in enumerate(values)}
        by_rank = np.array([code.get(labels.get(name, ""), ABSENT) for labels in scanned.labels], np.int32)
        found[name] = Column(by_rank[scanned.ranks], pa.array(values, pa.string()), Category.STREAM)
    return found


def _by_name(scanned: Scanned, names: Collection[str] | None) -> dict[str, dict[Source, set[int]]]:
    """Sources of each label, best first, with the files in which the column means that."""
    there = set(scanned.rows.column_names)
    found: dict[str, dict[Source, set[int]]] = {}
    for number, footer in enumerate(scanned.footers):
        for source in sources_of(footer, names):
            if source.column in there:
                found.setdefault(source.name, {}).setdefault(source, set()).add(number)
    return {
        name: dict(sorted(sources.items(), key=lambda one: one[0].precedence))
        for name, sources in sorted(found.items())
    }


def _metadata(
    name: str, sources: Mapping[Source, set[int]], scanned: Scanned
) -> Iterator[tuple[str, Column]]:
    """Usually one column; two when some streams already have a label of this name."""
    by_rank = np.array([name in labels for labels in scanned.labels], np.bool_)
    clashing: Flags = by_rank[scanned.ranks] if by_rank.any() else np.zeros(len(scanned.ranks), np.bool_)
    if not clashing.all():
        plain = _first_of(sources, scanned, ~clashing)
        if plain is not None:
            yield name, plain
    if clashing.any():
        kept = {source: files for source, files in sources.items() if source.precedence != RESOURCE}
        renamed = _first_of(kept, scanned, clashing)
        if renamed is not None:
            yield f"{name}{EXTRACTED}", renamed


def _first_of(sources: Mapping[Source, set[int]], scanned: Scanned, asked: Flags) -> Column | None:
    """The first source that has a value; None where no row has any."""
    codes = np.full(len(asked), ABSENT, np.int32)
    values: list[pa.Array] = []
    before = 0
    for source, files in sources.items():
        open_rows = asked & (codes < 0)
        if len(files) < len(scanned.footers):
            open_rows &= np.isin(scanned.files, sorted(files))
        own, texts = _coded_texts(scanned.rows.column(source.column), source)
        taken = open_rows & (own >= 0)
        if taken.any():
            codes = np.where(taken, own + before, codes).astype(np.int32)
            values.append(texts)
            before += len(texts)
    if not values:
        return None
    return coded(codes, pa.concat_arrays(values), Category.METADATA)


def _coded_texts(column: pa.ChunkedArray, source: Source) -> tuple[Int32s, pa.StringArray]:
    """Each distinct value is spelled once; rows without a value are absent."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode(null_encoding="encode")
    codes = whole.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int32)
    texts = source.show(whole.dictionary)
    if texts.null_count:
        gone = texts.is_null().to_numpy(zero_copy_only=False)
        codes = np.where((codes >= 0) & ~gone[codes], codes, ABSENT).astype(np.int32)
        texts = texts.fill_null("")
    return codes, texts


def _spill(scanned: Scanned, names: Collection[str] | None, found: Columns) -> None:
    """Attributes that found no column of their own: rare, so row by row."""
    spilled: dict[str, dict[int, str]] = {}
    for scope, column in OVERFLOW_COLUMNS.items():
        if column in scanned.rows.column_names:
            for row, pairs in enumerate(scanned.rows.column(column).to_pylist()):
                for key, value in pairs or ():
                    name = _spilled_name(loki_name(key), scope, scanned, row)
                    if name is not None and (names is None or name.removesuffix(EXTRACTED) in names):
                        spilled.setdefault(name, {})[row] = value
    for name, by_row in spilled.items():
        found[name] = _filled(found.get(name), by_row, len(scanned.ranks))


def _spilled_name(name: str, scope: str, scanned: Scanned, row: int) -> str | None:
    if name not in scanned.labels[int(scanned.ranks[row])]:
        return name
    return None if scope == "resource" else f"{name}{EXTRACTED}"


def _filled(column: Column | None, by_row: Mapping[int, str], rows: int) -> Column:
    codes = np.full(rows, ABSENT, np.int32)
    for number, row in enumerate(by_row):
        codes[row] = number
    spilled = coded(codes, pa.array(list(by_row.values()), pa.string()), Category.METADATA)
    return spilled if column is None else beneath(column, spilled)


def beneath(first: Column, second: Column) -> Column:
    """Rows without a value in the first have that of the second."""
    taken = (first.codes < 0) & (second.codes >= 0)
    if not taken.any():
        return first
    codes = np.where(taken, second.codes + len(first.values), first.codes).astype(np.int32)
    category = first.category
    if category is not second.category:
        category = np.where(taken, second.category, category).astype(np.int8)
    return coded(codes, pa.concat_arrays([first.values, second.values]), category)
