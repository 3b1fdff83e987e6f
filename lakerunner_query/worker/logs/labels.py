"""Labels of scanned rows become dictionary-coded columns: stream labels, then structured metadata.

A resource attribute that became a stream label is not repeated; any other clash with a stream label gets the
suffix `_extracted`. Work happens per distinct value and per stream; rows are touched through codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import ABSENT, Category, Column, encode_column
from lakerunner_query.worker.logs.footer import Footer
from resources.arrays import Flags, Int32s
from resources.lake.columns import CHQ_DROPPED_ATTRIBUTES, CHQ_OBSERVED_TSNS
from resources.lake.segment_file import OVERFLOW_COLUMNS
from resources.otel_text import go_double, value_text

Render = Callable[[pa.Array], pa.StringArray]
"""Function from distinct values to texts, null where the row counts as having none."""
SYSTEM, LOG, SCOPE, RESOURCE = range(4)
PRECEDENCE = {"record": LOG, "scope": SCOPE, "resource": RESOURCE}
EXTRACTED = "_extracted"
UNKNOWN = "unknown"
NONE = pa.scalar(None, pa.string())
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_:]")


@dataclass(frozen=True, slots=True)
class Source:
    """A column that may hold the label.

    Names and precedence follow Loki's OTLP mapping: fields of the record itself, then log, scope and resource
    attributes. A column name is only good within its own segment; where one label has several columns, the
    first that has a value counts.
    """

    name: str
    column: str
    precedence: int
    render: Render


def hex_texts(values: pa.Array) -> pa.StringArray:
    """Render ids in hexadecimal; an id of zeros only is null."""
    width = values.type.byte_width if pa.types.is_fixed_size_binary(values.type) else 0
    if not width:
        return texts_of(values)
    filled = values.fill_null(b"\0" * width)
    start = filled.offset * width
    raw = np.frombuffer(filled.buffers()[1], np.uint8)[start : start + len(filled) * width]
    raw = raw.reshape(len(filled), width)
    letters = raw.tobytes().hex().encode()
    offsets = pa.py_buffer(np.arange(len(filled) + 1, dtype=np.int32) * (2 * width))
    found = pa.StringArray.from_buffers(len(filled), offsets, pa.py_buffer(letters))
    return pc.if_else(pa.array(raw.any(axis=1)), found, NONE)


def nonempty_texts(values: pa.Array) -> pa.StringArray:
    """Render values; zero or the empty text means that nothing was sent."""
    nothing = "" if pa.types.is_string(values.type) else "0"
    texts = texts_of(values)
    return pc.if_else(pc.equal(texts, nothing), NONE, texts)


def level_texts(values: pa.Array) -> pa.StringArray:
    texts = texts_of(values).fill_null(UNKNOWN)
    return pc.if_else(pc.equal(texts, ""), UNKNOWN, texts)


def texts_of(values: pa.Array) -> pa.StringArray:
    """Render values in OpenTelemetry's string form."""
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        return values.cast(pa.string())
    return pa.array(
        [None if one is None else value_text(one, go_double) for one in values.to_pylist()], pa.string()
    )


RECORD_FIELDS: dict[str, tuple[str, Render]] = {
    "trace_id": ("trace_id", hex_texts),
    "span_id": ("span_id", hex_texts),
    "log_severity_number": ("severity_number", nonempty_texts),
    "log_severity_text": ("severity_text", nonempty_texts),
    CHQ_OBSERVED_TSNS: ("observed_timestamp", nonempty_texts),
    "log_flags": ("flags", nonempty_texts),
    "event_name": ("event_name", nonempty_texts),
    CHQ_DROPPED_ATTRIBUTES: ("dropped_attributes_count", nonempty_texts),
    "scope_name": ("scope_name", nonempty_texts),
    "scope_version": ("scope_version", nonempty_texts),
    "detected_level": ("detected_level", level_texts),
}
OVERFLOWS = frozenset(OVERFLOW_COLUMNS.values())


def sources_of(footer: Footer, names: Collection[str] | None = None) -> list[Source]:
    """Return the sources of these labels, or of all, best first."""
    found = [one for one in _all_sources(footer) if names is None or one.name in names]
    return sorted(found, key=lambda source: (source.name, source.precedence))


def columns_for(footers: Sequence[Footer], names: Collection[str] | None = None) -> list[str]:
    """Return every column that may hold one of these labels in any of the files."""
    stored = None if names is None else {*names, *(name.removesuffix(EXTRACTED) for name in names)}
    if stored is not None and not stored:
        return []
    known = {one.column for footer in footers for one in sources_of(footer, stored)}
    spilled = {name for footer in footers for name in footer.columns if name in OVERFLOWS}
    return sorted(known | spilled)


def loki_name(key: str) -> str:
    """
    >>> loki_name("http.status-code"), loki_name("1st")
    ('http_status_code', '_1st')
    """
    name = _NOT_A_NAME.sub("_", key)
    return f"_{name}" if name[:1].isdigit() else name


def _all_sources(footer: Footer) -> Iterator[Source]:
    owned = {one.column for one in footer.mapped}
    for column, (name, render) in RECORD_FIELDS.items():
        if column in footer.columns and column not in owned:
            yield Source(name, column, SYSTEM, render)
    for one in sorted(footer.mapped, key=lambda mapped: mapped.column):
        yield Source(loki_name(one.key), one.column, PRECEDENCE[one.scope], texts_of)


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Rows of a scan with the footers and label sets that name their values."""

    rows: pa.Table
    """Columns by name, those that were read."""
    files: Int32s
    """Index into `footers`, by row."""
    ranks: Int32s
    """Index into `labels`, by row."""
    footers: Sequence[Footer]
    labels: Sequence[Mapping[str, str]]
    """Label sets of streams."""


Columns = dict[str, Column]


def label_columns(scanned: ScannedRows, names: Collection[str] | None = None) -> Columns:
    """Return all labels of the rows, or those of these names."""
    found = stream_columns(scanned, names)
    stored = None if names is None else {*names, *(name.removesuffix(EXTRACTED) for name in names)}
    for name, sources in _by_name(scanned, stored).items():
        for label, column in _metadata(name, sources, scanned):
            found[label] = beneath(found[label], column) if label in found else column
    _spill(scanned, stored, found)
    return found


def stream_columns(scanned: ScannedRows, names: Collection[str] | None = None) -> Columns:
    known = {name for labels in scanned.labels for name in labels}
    found: Columns = {}
    for name in sorted(known if names is None else known.intersection(names)):
        values = list(dict.fromkeys(labels[name] for labels in scanned.labels if name in labels))
        code = {value: number for number, value in enumerate(values)}
        by_rank = np.array([code.get(labels.get(name, ""), ABSENT) for labels in scanned.labels], np.int32)
        found[name] = Column(by_rank[scanned.ranks], pa.array(values, pa.string()), Category.STREAM)
    return found


def _by_name(scanned: ScannedRows, names: Collection[str] | None) -> dict[str, dict[Source, set[int]]]:
    """Return the sources of each label, best first, and the files of each."""
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
    name: str, sources: Mapping[Source, set[int]], scanned: ScannedRows
) -> Iterator[tuple[str, Column]]:
    """Yield one column; two where some streams already have a label of this name."""
    by_rank = np.array([name in labels for labels in scanned.labels], np.bool_)
    clashing: Flags = by_rank[scanned.ranks] if by_rank.any() else np.zeros(len(scanned.ranks), np.bool_)
    if not clashing.all():
        plain = _first_of(sources, scanned, ~clashing)
        if plain is not None:
            yield name, plain
    if clashing.any():
        renamable = {source: files for source, files in sources.items() if source.precedence != RESOURCE}
        renamed = _first_of(renamable, scanned, clashing)
        if renamed is not None:
            yield f"{name}{EXTRACTED}", renamed


def _first_of(sources: Mapping[Source, set[int]], scanned: ScannedRows, rows: Flags) -> Column | None:
    """Take each row's value from its first source that has one; None where no row has any."""
    codes = np.full(len(rows), ABSENT, np.int32)
    values: list[pa.Array] = []
    before = 0
    for source, files in sources.items():
        open_rows = rows & (codes < 0)
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
    return encode_column(codes, pa.concat_arrays(values), Category.METADATA)


def _coded_texts(column: pa.ChunkedArray, source: Source) -> tuple[Int32s, pa.StringArray]:
    """Render each distinct value once; rows without a value are absent."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode(null_encoding="encode")
    codes = whole.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int32)
    texts = source.render(whole.dictionary)
    if texts.null_count:
        gone = texts.is_null().to_numpy(zero_copy_only=False)
        codes = np.where((codes >= 0) & ~gone[codes], codes, ABSENT).astype(np.int32)
        texts = texts.fill_null("")
    return codes, texts


def _spill(scanned: ScannedRows, names: Collection[str] | None, found: Columns) -> None:
    """Add attributes that have no column of their own: rare, so row by row."""
    spilled: dict[str, dict[int, str]] = {}
    for scope, column in OVERFLOW_COLUMNS.items():
        if column in scanned.rows.column_names:
            for row, pairs in enumerate(scanned.rows.column(column).to_pylist()):
                for key, value in pairs or ():
                    name = _spilled_name(loki_name(key), scope, scanned, row)
                    if name is not None and (names is None or name.removesuffix(EXTRACTED) in names):
                        spilled.setdefault(name, {})[row] = value
    for name, by_row in spilled.items():
        found[name] = _fill(found.get(name), by_row, len(scanned.ranks))


def _spilled_name(name: str, scope: str, scanned: ScannedRows, row: int) -> str | None:
    if name not in scanned.labels[int(scanned.ranks[row])]:
        return name
    return None if scope == "resource" else f"{name}{EXTRACTED}"


def _fill(column: Column | None, by_row: Mapping[int, str], rows: int) -> Column:
    codes = np.full(rows, ABSENT, np.int32)
    for number, row in enumerate(by_row):
        codes[row] = number
    spilled = encode_column(codes, pa.array(list(by_row.values()), pa.string()), Category.METADATA)
    return spilled if column is None else beneath(column, spilled)


def beneath(first: Column, second: Column) -> Column:
    """Fill rows without a value in the first column from the second."""
    taken = (first.codes < 0) & (second.codes >= 0)
    if not taken.any():
        return first
    codes = np.where(taken, second.codes + len(first.values), first.codes).astype(np.int32)
    category = first.category
    if category is not second.category:
        category = np.where(taken, second.category, category).astype(np.int8)
    return encode_column(codes, pa.concat_arrays([first.values, second.values]), category)
