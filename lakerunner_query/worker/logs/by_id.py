"""Rows with a trace or span id, found in the one column that holds ids, without a statement.

A segment that holds the id at all has a handful of such rows. Looking through its ids takes less time than
planning a statement; large segments have bloom filters by row group, which DuckDB knows to use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.logs.frames import integers
from lakerunner_query.worker.logs.pushed import ID_DIGITS
from lakerunner_query.worker.logs.sources import as_hex, sources_of
from lakerunner_query.worker.logs.statements import Question
from lakerunner_query.worker.logs.stream_ranks import StreamRanks
from lakerunner_query.worker.logs.wide import Places, fetched
from lakerunner_query.worker.logs.windows import wanted_groups
from lakerunner_query.worker.opening import Opened
from resources.arrays import Int64s
from resources.duckdb import Cancellation

MOST_ROWS_SEARCHED = 500_000
MOST_ROWS_FOUND = 5000
NARROW = ("chq_tsns", "chq_stream_id", "chq_object", "chq_position")
KEYS = ("chq_tsns", "rank", "chq_object", "chq_position")


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
    rank = np.array([rank_of.get(one, -1) for one in found["chq_stream_id"].tolist()], np.int32)
    times = found["chq_tsns"]
    kept = np.flatnonzero((rank >= 0) & (times >= question.start_ns) & (times < question.end_ns))
    columns = {
        "chq_tsns": pa.array(times[kept]),
        "rank": pa.array(rank[kept]),
        "scanned_file": paths.take(pa.array(places.files[kept])),
        "scanned_row": pa.array(places.rows[kept]),
        "chq_object": pa.array(found["chq_object"][kept]),
        "chq_position": pa.array(found["chq_position"][kept]),
    }
    return pa.table(columns)


def _ordered(table: pa.Table, reverse: bool) -> pa.Table:
    direction = "descending" if reverse else "ascending"
    return table.take(pc.sort_indices(table, [(key, direction) for key in KEYS]))
