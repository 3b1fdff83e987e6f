"""Rows with a trace or span id, found in the one column that holds ids, without a statement.

A segment that holds the id at all has a handful of such rows. Looking through its ids takes less time than
planning a statement; large segments have bloom filters by row group, which DuckDB knows to use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.logs.labels import Scanned, as_hex, label_columns, sources_of
from lakerunner_query.worker.logs.scan_intervals import wanted_groups
from lakerunner_query.worker.logs.segment_opener import Opened
from lakerunner_query.worker.logs.sql import ID_DIGITS, Question
from resources.arrays import Int32s, Int64s
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.streams import Labels, Stream

# << The order of streams within a unit, as numbers that DuckDB can sort by.
# <<
# << Rows are ordered by time and then by label set, so each stream gets the position of its label set
# << among all
# << label sets of the unit.


@dataclass(frozen=True, slots=True)
class StreamRanks:
    """Distinct label sets in order; `json` is each as an object with sorted keys."""

    rank_of: dict[Labels, int]
    labels: tuple[dict[str, str], ...]
    json: tuple[str, ...]

    @classmethod
    def of(cls, streams: Iterable[Stream]) -> StreamRanks:
        ordered = sorted({stream.labels for stream in streams})
        labels = tuple(dict(one) for one in ordered)
        rendered = tuple(msgspec.json.encode(one).decode() for one in labels)
        return cls({one: rank for rank, one in enumerate(ordered)}, labels, rendered)

    def table(self, streams: Iterable[Stream]) -> pa.Table:
        """(stream_id, rank), one row per id; the streams must be free of collisions."""
        ranks = {stream.stream_id: self.rank_of[stream.labels] for stream in streams}
        ids = pa.array(list(ranks), pa.int64())
        return pa.table({"stream_id": ids, "rank": pa.array(list(ranks.values()), pa.int32())})


# << Scanned rows as frames: times, lines and label columns.

ROW_COLUMNS = (CHQ_TSNS, "rank", "scanned_file", "scanned_row", CHQ_OBJECT, CHQ_POSITION)
MESSAGE = "log_message"


def scanned(table: pa.Table, group: Sequence[Opened], ranks: StreamRanks) -> Scanned:
    paths = pa.array([str(one.path) for one in group], pa.string())
    files = pc.index_in(table["scanned_file"], value_set=paths)
    return Scanned(
        table,
        files.to_numpy().astype(np.int32),
        table["rank"].to_numpy().astype(np.int32),
        [one.footer for one in group],
        ranks.labels,
    )


def frame_of(found: Scanned, names: Collection[str] | None) -> LogFrame:
    """With these labels, or all; lines are empty where they were not read."""
    table = found.rows
    return LogFrame(
        integers(table, CHQ_TSNS),
        lines_of(table),
        label_columns(found, names),
        integers(table, CHQ_OBJECT),
        integers(table, CHQ_POSITION),
    )


def integers(table: pa.Table, name: str) -> Int64s:
    found: Int64s = table[name].to_numpy().astype(np.int64, copy=False)
    return found


def lines_of(table: pa.Table) -> pa.StringArray:
    if MESSAGE not in table.column_names:
        return pa.repeat(pa.scalar("", pa.string()), table.num_rows)
    return pc.fill_null(one_chunk(table[MESSAGE]), "")


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks else pa.array([], column.type)
    return found


# << Further columns of rows that are already chosen: read by row group, a few columns at a time.
# <<
# << A segment may have a thousand columns of attributes; all of a row group at once would be half a
# << gigabyte, of
# << which a query wants a hundred rows. Columns that hold nothing in a row group are not read.

AT_ONCE = 16
"""Columns."""
FEW_ROWS = 1 << 20
"""Of a row group times columns: so much is read at once, whatever the number of columns."""
ROW = "scanned_row"
SAYS_SOMETHING_EMPTY = frozenset({"detected_level"})
"""A row without a value still has the label."""


@dataclass(frozen=True, slots=True)
class Places:
    """Rows of files: index into the files, and row number within the file."""

    files: Int32s
    rows: Int64s


def fetched(
    group: Sequence[Opened], places: Places, columns: Sequence[str], cancellation: Cancellation
) -> pa.Table:
    """These columns of these rows, in the order of the rows."""
    parts: list[pa.Table] = []
    order: list[Int64s] = []
    for number in np.unique(places.files).tolist():
        mine = np.flatnonzero(places.files == number)
        mine = mine[np.argsort(places.rows[mine], kind="stable")]
        parts.append(_of_file(group[number], places.rows[mine], columns, cancellation))
        order.append(mine)
    back = np.empty(len(places.rows), np.int64)
    back[np.concatenate(order)] = np.arange(len(places.rows))
    return pa.concat_tables(parts, promote_options="default").combine_chunks().take(pa.array(back))


def _of_file(one: Opened, rows: Int64s, columns: Sequence[str], cancellation: Cancellation) -> pa.Table:
    """`rows` ascend."""
    there = [name for name in columns if name in one.footer.columns]
    texts = [name for name in there if one.footer.columns[name] == "string"]
    first = one.footer.groups.first
    parts: list[pa.Table] = []
    with pq.ParquetFile(one.path, read_dictionary=texts) as file:
        place = {file.metadata.schema.column(n).path: n for n in range(file.metadata.num_columns)}
        for number in np.unique(np.searchsorted(first, rows, side="right") - 1).tolist():
            inside = rows[(rows >= first[number]) & (rows < first[number + 1])] - first[number]
            filled = _filled(file.metadata.row_group(number), there, place)
            parts.append(_of_group(file, number, inside, filled, cancellation))
    return pa.concat_tables(parts, promote_options="default")


def _of_group(
    file: pq.ParquetFile, number: int, rows: Int64s, columns: Sequence[str], cancellation: Cancellation
) -> pa.Table:
    size = file.metadata.row_group(number).num_rows
    width = max(AT_ONCE, FEW_ROWS // max(1, size))
    taken = pa.array(rows)
    found: dict[str, pa.ChunkedArray] = {ROW: pa.chunked_array([taken])}
    for start in range(0, len(columns), width):
        cancellation.check()
        part = file.read_row_group(number, columns=list(columns[start : start + width]), use_threads=False)
        for name in part.column_names:
            column = part.column(name).take(taken)
            found[name] = column.cast(column.type.value_type) if _is_coded(column) else column
    return pa.table(found)


def _is_coded(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _filled(group: pq.RowGroupMetaData, columns: Sequence[str], place: dict[str, int]) -> list[str]:
    """Columns that have a value somewhere in the row group; nested ones are not looked into."""
    return [
        name
        for name in columns
        if name in SAYS_SOMETHING_EMPTY or name not in place or not _is_empty(group.column(place[name]))
    ]


def _is_empty(column: pq.ColumnChunkMetaData) -> bool:
    statistics = column.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == column.num_values


MOST_ROWS_SEARCHED = 500_000
MOST_ROWS_FOUND = 5000
NARROW = (CHQ_TSNS, CHQ_STREAM_ID, CHQ_OBJECT, CHQ_POSITION)
KEYS = (CHQ_TSNS, "rank", CHQ_OBJECT, CHQ_POSITION)


def rows_with_id(
    question: Question, ranks: StreamRanks, cancellation: Cancellation, *, reverse: bool
) -> pa.Table | None:
    """As a statement would give them, in order, no other condition looked at; None where one is better."""
    asked = next(filter(None, (_id_of(one, question.group) for one in question.labels)), None)
    if asked is None or _rows(question) > MOST_ROWS_SEARCHED:
        return None
    places = _places(question, *asked, cancellation)
    if len(places.rows) > MOST_ROWS_FOUND:
        return None
    narrow = fetched(question.group, places, NARROW, cancellation) if len(places.rows) else None
    return _ordered(_wanted(question, ranks, places, narrow), reverse)


def _id_of(matcher: Matcher, group: Sequence[Opened]) -> tuple[str, bytes] | None:
    """The column and what it must hold."""
    digits = ID_DIGITS.get(matcher.name, 0)
    if matcher.op is not MatchOp.EQUAL or len(matcher.value) != digits or not digits:
        return None
    if matcher.value.strip("0123456789abcdef"):
        return None
    source = next((found[0] for one in group if (found := sources_of(one.footer, {matcher.name}))), None)
    if source is None or source.show is not as_hex:
        return None
    return source.column, bytes.fromhex(matcher.value)


def _rows(question: Question) -> int:
    wanted = ((one, wanted_groups(one, question.start_ns, question.end_ns)) for one in question.group)
    return sum(int(np.diff(one.footer.groups.first)[groups].sum()) for one, groups in wanted)


def _places(question: Question, column: str, value: bytes, cancellation: Cancellation) -> Places:
    files: list[Int64s] = [np.zeros(0, np.int64)]
    rows: list[Int64s] = [np.zeros(0, np.int64)]
    for number, one in enumerate(question.group):
        if column not in one.footer.columns:
            continue
        with pq.ParquetFile(one.path) as file:
            for group in np.flatnonzero(wanted_groups(one, question.start_ns, question.end_ns)).tolist():
                cancellation.check()
                ids = file.read_row_group(group, columns=[column], use_threads=False).column(0)
                hits = pc.indices_nonzero(pc.equal(ids, pa.scalar(value, ids.type))).to_numpy()
                rows.append(hits.astype(np.int64) + one.footer.groups.first[group])
                files.append(np.full(len(hits), number, np.int64))
    return Places(np.concatenate(files).astype(np.int32), np.concatenate(rows))


def _wanted(question: Question, ranks: StreamRanks, places: Places, narrow: pa.Table | None) -> pa.Table:
    """Of wanted streams, within the time."""
    paths = pa.array([str(one.path) for one in question.group], pa.string())
    rank_of = {s.stream_id: ranks.rank_of[s.labels] for one in question.group for s in one.streams}
    found = {name: np.zeros(0, np.int64) if narrow is None else integers(narrow, name) for name in NARROW}
    rank = np.array([rank_of.get(one, -1) for one in found[CHQ_STREAM_ID].tolist()], np.int32)
    times = found[CHQ_TSNS]
    kept = np.flatnonzero((rank >= 0) & (times >= question.start_ns) & (times < question.end_ns))
    columns = {
        CHQ_TSNS: pa.array(times[kept]),
        "rank": pa.array(rank[kept]),
        "scanned_file": paths.take(pa.array(places.files[kept])),
        "scanned_row": pa.array(places.rows[kept]),
        CHQ_OBJECT: pa.array(found[CHQ_OBJECT][kept]),
        CHQ_POSITION: pa.array(found[CHQ_POSITION][kept]),
    }
    return pa.table(columns)


def _ordered(table: pa.Table, reverse: bool) -> pa.Table:
    direction = "descending" if reverse else "ascending"
    return table.take(pc.sort_indices(table, [(key, direction) for key in KEYS]))
