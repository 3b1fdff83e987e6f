"""Rows with a trace or span id are found in the id column, without SQL.

A segment that holds the id at all has a handful of such rows. Scanning its ids takes less time than planning
a statement; large segments have bloom filters by row group, which DuckDB uses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.logs.labels import hex_texts, sources_of
from lakerunner_query.worker.logs.row_fetch import RowAddresses, StreamRanks, fetch_columns, integers
from lakerunner_query.worker.logs.scan_intervals import matching_groups
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.logs.sql import ID_DIGITS, RowQuery
from resources.arrays import Int64s
from resources.duckdb import Cancellation
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_STREAM_ID, CHQ_TSNS

MAX_ROWS_SCANNED = 500_000
MAX_ROWS_FOUND = 5000
NARROW = (CHQ_TSNS, CHQ_STREAM_ID, CHQ_OBJECT, CHQ_POSITION)
KEYS = (CHQ_TSNS, "rank", CHQ_OBJECT, CHQ_POSITION)


def find_rows_by_id(
    query: RowQuery, ranks: StreamRanks, cancellation: Cancellation, *, reverse: bool
) -> pa.Table | None:
    """Find the rows in order, with the id as the only condition; None where a statement is better."""
    wanted_id = next(filter(None, (_id_of(one, query.group) for one in query.labels)), None)
    if wanted_id is None or _row_count(query) > MAX_ROWS_SCANNED:
        return None
    addresses = _find(query, *wanted_id, cancellation)
    if len(addresses.rows) > MAX_ROWS_FOUND:
        return None
    narrow = fetch_columns(query.group, addresses, NARROW, cancellation) if len(addresses.rows) else None
    return _sort(_filter(query, ranks, addresses, narrow), reverse)


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


def _row_count(query: RowQuery) -> int:
    matching = ((one, matching_groups(one, query.start_ns, query.end_ns)) for one in query.group)
    return sum(int(np.diff(one.footer.groups.first)[groups].sum()) for one, groups in matching)


def _find(query: RowQuery, column: str, value: bytes, cancellation: Cancellation) -> RowAddresses:
    files: list[Int64s] = [np.zeros(0, np.int64)]
    rows: list[Int64s] = [np.zeros(0, np.int64)]
    for number, one in enumerate(query.group):
        if column not in one.footer.columns:
            continue
        with pq.ParquetFile(one.path) as file:
            for group in np.flatnonzero(matching_groups(one, query.start_ns, query.end_ns)).tolist():
                cancellation.check()
                ids = file.read_row_group(group, columns=[column], use_threads=False).column(0)
                hits = pc.indices_nonzero(pc.equal(ids, pa.scalar(value, ids.type))).to_numpy()
                rows.append(hits.astype(np.int64) + one.footer.groups.first[group])
                files.append(np.full(len(hits), number, np.int64))
    return RowAddresses(np.concatenate(files).astype(np.int32), np.concatenate(rows))


def _filter(
    query: RowQuery, ranks: StreamRanks, addresses: RowAddresses, narrow: pa.Table | None
) -> pa.Table:
    """Keep rows of selected streams within the time."""
    paths = pa.array([str(one.path) for one in query.group], pa.string())
    rank_of = {s.stream_id: ranks.rank_of[s.labels] for one in query.group for s in one.streams}
    found = {name: np.zeros(0, np.int64) if narrow is None else integers(narrow, name) for name in NARROW}
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
    return pa.table(columns)


def _sort(table: pa.Table, reverse: bool) -> pa.Table:
    direction = "descending" if reverse else "ascending"
    return table.take(pc.sort_indices(table, [(key, direction) for key in KEYS]))
