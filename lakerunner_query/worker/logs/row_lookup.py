"""Pages of a column tell which rows have an id or a text, without SQL.

A segment that holds the id at all has a handful of such rows. Bloom filters choose row groups, and scanning
their ids takes less time than planning a statement. Lines are searched in place,
and rows that pass get their other columns: a rare word is in few row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.logs.labels import UNKNOWN, columns_for, hex_texts, sources_of
from lakerunner_query.worker.logs.line_search import MOST_BYTES, LineSearch, search_groups
from lakerunner_query.worker.logs.page_counts import UNREADABLE, column_locations
from lakerunner_query.worker.logs.row_fetch import (
    MESSAGE,
    RowAddresses,
    StreamRanks,
    fetch_columns,
    integers,
)
from lakerunner_query.worker.logs.scan_intervals import chunks_to_read, fetch
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.logs.sql import ID_DIGITS, TEXT, RowQuery
from lakerunner_query.worker.parquet.column_chunks import (
    Bloom,
    ColumnLocation,
    Constant,
    DictionaryChunk,
    bloom_hash,
    plain_texts,
    rows_with_id,
)
from resources.arrays import Flags, Int64s
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM_ID, CHQ_TSNS

MAX_ROWS_SCANNED = 500_000
MAX_ROWS_FOUND = 5000
NARROW = (CHQ_TSNS, CHQ_STREAM_ID, CHQ_OBJECT, CHQ_POSITION)
KEYS = (CHQ_TSNS, "rank", CHQ_OBJECT, CHQ_POSITION)
NO_ROWS = pa.schema(
    [
        (CHQ_TSNS, pa.int64()),
        ("rank", pa.int32()),
        ("scanned_file", pa.string()),
        ("scanned_row", pa.int64()),
        (CHQ_OBJECT, pa.int64()),
        (CHQ_POSITION, pa.int64()),
    ]
).empty_table()
FEW_ROWS = 100
"""Rows that are read with all their columns at once."""
NO_LINES = NO_ROWS.append_column(MESSAGE, pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows with their keys, and where they are few with all their other columns, too."""

    rows: pa.Table
    is_wide: bool

    def in_order(self, reverse: bool) -> FoundRows:
        if self.rows.num_rows < 2:
            return self
        direction = "descending" if reverse else "ascending"
        order = pc.sort_indices(self.rows, [(key, direction) for key in KEYS])
        return FoundRows(self.rows.take(order), self.is_wide)


def find_rows_by_id(
    query: RowQuery, ranks: StreamRanks, cancellation: Cancellation, *, reverse: bool
) -> FoundRows | None:
    """Find the rows in order, with the id as the only condition; None where a statement is better."""
    wanted_id = next(filter(None, (_id_of(one, query.group) for one in query.labels)), None)
    if wanted_id is None:
        return None
    groups = _groups_with_id(query, *wanted_id)
    if sum(one.footer.groups.rows_in(flags) for one, flags in groups) > MAX_ROWS_SCANNED:
        return None
    addresses = _find(groups, *wanted_id, cancellation)
    if len(addresses.rows) > MAX_ROWS_FOUND:
        return None
    return _filter(query, ranks, addresses, cancellation).in_order(reverse)


def find_rows_by_text(
    query: RowQuery, search: LineSearch, ranks: StreamRanks, cancellation: Cancellation, *, reverse: bool
) -> FoundRows | None:
    """Find the rows whose lines pass, in order and with their lines; None where a statement is better."""
    numbers = {id(one): number for number, one in enumerate(query.group)}
    wanted = [
        (one, number)
        for one in query.group
        for number in np.flatnonzero(one.matching_groups(query.start_ns, query.end_ns)).tolist()
    ]
    files, rows, lines = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [pa.array([], pa.string())]
    left, left_bytes = MAX_ROWS_FOUND, MOST_BYTES
    searched = search_groups(search, wanted, cancellation, MAX_ROWS_FOUND)
    for (one, number), found in zip(wanted, searched, strict=True):
        if found is None:
            return None
        if not len(found.rows):
            continue
        left, left_bytes = left - len(found.rows), left_bytes - found.lines.nbytes
        if left < 0 or left_bytes < 0:
            return None
        files.append(np.full(len(found.rows), numbers[id(one)], np.int32))
        rows.append(found.rows + one.footer.groups.first[number])
        lines.append(found.lines)
    addresses = RowAddresses(np.concatenate(files), np.concatenate(rows))
    return _filter(query, ranks, addresses, cancellation, pa.concat_arrays(lines)).in_order(reverse)


def find_rows_by_label(
    query: RowQuery, ranks: StreamRanks, cancellation: Cancellation, *, reverse: bool
) -> FoundRows | None:
    """Find the rows with the one label of the query, in order; None where a statement is better."""
    column = _text_column(query.labels[0], query.group)
    if column is None:
        return None
    wanted = query.labels[0].value
    fetch(chunks_to_read(query.group, [column], query.start_ns, query.end_ns))
    files, rows, left = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], MAX_ROWS_FOUND
    for number, one in enumerate(query.group):
        cancellation.check()
        (locations,) = column_locations(one, [column])
        for group in np.flatnonzero(one.matching_groups(query.start_ns, query.end_ns)).tolist():
            first, behind = one.footer.groups.first[group : group + 2].tolist()
            try:
                found = _rows_with(one, locations[group], behind - first, wanted)
            except UNREADABLE:
                return None
            left -= 0 if found is None else len(found)
            if found is None or left < 0:
                return None
            files.append(np.full(len(found), number, np.int32))
            rows.append(found + first)
    addresses = RowAddresses(np.concatenate(files), np.concatenate(rows))
    return _filter(query, ranks, addresses, cancellation).in_order(reverse)


def _text_column(matcher: Matcher, group: Sequence[OpenSegment]) -> str | None:
    """Return the column of texts that must hold the value as it is; None where it is not as simple."""
    if matcher.op is not MatchOp.EQUAL or not matcher.value or matcher.value == UNKNOWN:
        return None
    source = next((found[0] for one in group if (found := sources_of(one.footer, {matcher.name}))), None)
    if source is None or source.render is hex_texts:
        return None
    is_text = all(one.footer.columns.get(source.column, TEXT) == TEXT for one in group)
    return source.column if is_text else None


def _rows_with(one: OpenSegment, location: ColumnLocation, count: int, wanted: str) -> Int64s | None:
    """Return the rows of a row group with this text; None where the column is kept in another way."""
    if isinstance(location, Constant):
        return np.arange(count if location.value == wanted else 0, dtype=np.int64)
    if location is None:
        return None
    chunk = DictionaryChunk.read(one, location)
    texts = plain_texts(chunk.dictionary)
    if wanted not in texts:
        return np.zeros(0, np.int64)
    codes = np.zeros(count, np.int32)
    chunk.add_to(codes, len(texts))
    return np.flatnonzero(codes == texts.index(wanted))


def _id_of(matcher: Matcher, group: Sequence[OpenSegment]) -> tuple[str, bytes] | None:
    """Return the column and the bytes that it must hold."""
    digits = ID_DIGITS.get(matcher.name, 0)
    if matcher.op is not MatchOp.EQUAL or len(matcher.value) != digits or not digits:
        return None
    if matcher.value.strip("0123456789abcdef"):
        return None
    source = next((found[0] for one in group if (found := sources_of(one.footer, {matcher.name}))), None)
    if source is None or source.render is not hex_texts:
        return None
    return source.column, bytes.fromhex(matcher.value)


def _groups_with_id(query: RowQuery, column: str, value: bytes) -> list[tuple[OpenSegment, Flags]]:
    """Return the row groups of each file whose bloom filters, if they have any, do not exclude the id."""
    found: list[tuple[OpenSegment, Flags]] = []
    blooms: list[tuple[OpenSegment, Flags, dict[int, int]]] = []
    for one in query.group:
        flags = one.matching_groups(query.start_ns, query.end_ns) & (column in one.footer.columns)
        found.append((one, flags))
        blooms.append((one, flags, one.footer.bloom_offsets(column, flags)))
    fetch([(one, [(at, at + 1) for at in each.values()]) for one, _, each in blooms if not one.is_local])
    hashed = bloom_hash(value)
    for one, flags, each in blooms:
        known = one.footer.blooms
        for number, offset in each.items():
            bloom = known.get((column, number))
            if bloom is None:
                bloom = known[column, number] = Bloom.read(one, offset)
            flags[number] = bloom.may_hold(one, hashed)
    return found


def _find(
    groups: Sequence[tuple[OpenSegment, Flags]], column: str, value: bytes, cancellation: Cancellation
) -> RowAddresses:
    files: list[Int64s] = [np.zeros(0, np.int64)]
    rows: list[Int64s] = [np.zeros(0, np.int64)]
    fetch([(one, list(one.footer.chunk_ranges([column], f))) for one, f in groups if not one.is_local])
    for number, (one, flags) in enumerate(groups):
        for group in np.flatnonzero(flags).tolist():
            cancellation.check()
            hits = _rows_with_id(one, group, column, value)
            rows.append(hits + one.footer.groups.first[group])
            files.append(np.full(len(hits), number, np.int64))
    return RowAddresses(np.concatenate(files).astype(np.int32), np.concatenate(rows))


def _rows_with_id(one: OpenSegment, group: int, column: str, value: bytes) -> Int64s:
    """Return the rows of a row group with this id; Arrow reads ids that are stored in another way."""
    chunk = one.footer.plain_chunks(column)[group]
    if chunk is not None:
        first, behind = one.footer.groups.first[group : group + 2].tolist()
        try:
            found = rows_with_id(one, chunk, behind - first, value)
        except UNREADABLE:
            found = None  # Arrow names the damage
        if found is not None:
            return found
    with pq.ParquetFile(one.file.source(), metadata=one.footer.metadata, pre_buffer=False) as file:
        ids = file.read_row_group(group, columns=[column], use_threads=False).column(0)
    hits: Int64s = pc.indices_nonzero(pc.equal(ids, pa.scalar(value, ids.type))).to_numpy().astype(np.int64)
    return hits


def _filter(
    query: RowQuery,
    ranks: StreamRanks,
    addresses: RowAddresses,
    cancellation: Cancellation,
    lines: pa.StringArray | None = None,
) -> FoundRows:
    """Keep rows of selected streams within the time."""
    if not len(addresses.rows):
        return FoundRows(NO_ROWS if lines is None else NO_LINES, False)
    is_wide, wide = len(addresses.rows) <= FEW_ROWS, list[str]()
    if is_wide:
        known = NARROW if lines is None else (*NARROW, MESSAGE)
        wide = sorted({*columns_for([one.footer for one in query.group]), MESSAGE}.difference(known))
    narrow = fetch_columns(query.group, addresses, [*NARROW, *wide], cancellation)
    paths = pa.array([one.name for one in query.group], pa.string())
    rank_of = {s.stream_id: ranks.rank_of[s.labels] for one in query.group for s in one.streams}
    found = {name: integers(narrow, name) for name in NARROW}
    rank = np.array([rank_of.get(one, -1) for one in found[CHQ_STREAM_ID].tolist()], np.int32)
    times = found[CHQ_TSNS]
    chosen = np.flatnonzero((rank >= 0) & (times >= query.start_ns) & (times < query.end_ns))
    columns = {
        CHQ_TSNS: pa.array(times[chosen]),
        "rank": pa.array(rank[chosen]),
        "scanned_file": paths.take(pa.array(addresses.files[chosen])),
        "scanned_row": pa.array(addresses.rows[chosen]),
        CHQ_OBJECT: pa.array(found[CHQ_OBJECT][chosen]),
        CHQ_POSITION: pa.array(found[CHQ_POSITION][chosen]),
    }
    if lines is not None:
        columns[MESSAGE] = lines.take(pa.array(chosen))
    taken = pa.array(chosen)
    columns.update((name, narrow[name].take(taken)) for name in wide if name in narrow.column_names)
    return FoundRows(pa.table(columns), is_wide)
