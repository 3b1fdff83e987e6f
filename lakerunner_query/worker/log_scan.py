"""One unit of a log query on one worker: wanted files, one DuckDB statement, rows as finished text.

Repeats are dropped here where the API asks for it: they share an instant, and no other unit has that
instant. Work stops within milliseconds when the coordinator goes away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.execute.work import ROWS, LogUnit, UnitReport
from lakerunner_query.worker.grouping import groups
from lakerunner_query.worker.log_sql import scan_statement
from lakerunner_query.worker.metadata import Scanned, metadata_columns, metadata_json
from lakerunner_query.worker.opening import Opened, OpenedSet, SegmentOpener
from lakerunner_query.worker.segment_facts import Footer
from lakerunner_query.worker.stream_ranks import StreamRanks
from resources.duckdb import Cancellation, DuckSession

MAX_ANSWER_BYTES = 256 * 1024 * 1024
GROW_DISTINCT = 4
ROW_COLUMNS = ("chq_tsns", "chq_object", "chq_position", "log_message")
DAMAGE = (duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException)


class LogScanner:
    """Everything a worker process shares between scans."""

    def __init__(self, opener: SegmentOpener, session: DuckSession) -> None:
        self._opener = opener
        self._session = session

    def run(self, unit: LogUnit, cancellation: Cancellation) -> tuple[pa.Table, UnitReport]:
        """The rows of the unit in order, as `work.ROWS`."""
        with self._opener.open(unit, cancellation) as files:
            scan = _Scan(unit, files, self._opener, self._session, cancellation)
            rows, truncated = scan.distinct_rows() if unit.distinct else scan.rows(unit.limit)
        return rows, UnitReport(
            missing=tuple(files.missing),
            segments_opened=len(files.opened),
            segments_skipped=files.skipped,
            rows_considered=sum(int(one.footer.rows * _share(unit, one)) for one in files.opened),
            bytes_considered=sum(int(one.segment.bytes * _share(unit, one)) for one in files.opened),
            bytes_fetched=sum(one.fetched for one in files.opened),
            truncated=truncated,
        )


@dataclass(frozen=True, slots=True)
class _Scan:
    unit: LogUnit
    files: OpenedSet
    opener: SegmentOpener
    session: DuckSession
    cancellation: Cancellation

    def distinct_rows(self) -> tuple[pa.Table, bool]:
        """`limit` rows after dropping repeats, so that a page is never short while there is more."""
        limit = self.unit.limit
        while True:
            rows, truncated = self.rows(limit)
            kept = without_repeats(rows)
            if kept.num_rows >= self.unit.limit or not truncated:
                return kept.slice(0, self.unit.limit), truncated or kept.num_rows > self.unit.limit
            limit *= GROW_DISTINCT

    def rows(self, limit: int) -> tuple[pa.Table, bool]:
        """A file that turns out to be damaged is left out, named, and the rest scanned again."""
        while True:
            try:
                found = self._all_files(limit)
            except DAMAGE:
                if not self._discard_damaged():
                    raise
            else:
                return found, found.num_rows >= limit

    def _all_files(self, limit: int) -> pa.Table:
        opened = self.files.opened
        ranks = StreamRanks.of(stream for one in opened for stream in one.streams)
        parts = [self._group(group, ranks, limit) for group in groups(opened)]
        return _ordered(parts, self.unit.reverse, limit) if parts else ROWS.empty_table()

    def _group(self, group: Sequence[Opened], ranks: StreamRanks, limit: int) -> pa.Table:
        footers = [one.footer for one in group]
        files = [str(one.path) for one in group]
        streams = ranks.table(stream for one in group for stream in one.streams)
        columns = (*ROW_COLUMNS, *metadata_columns(footers))
        statement = scan_statement(self.unit, files, streams["stream_id"].to_pylist(), columns, limit)
        with self.session.cursor() as cursor:
            cursor.register("streams", streams)
            relation = cursor.sql(statement.sql, params=statement.parameters)
            found = self.cancellation.run(cursor, relation.to_arrow_table)
        _check_size(found)
        return _rendered(found, files, footers, ranks)

    def _discard_damaged(self) -> bool:
        """Probe every file alone; True when at least one was at fault."""
        damaged: list[tuple[Opened, str]] = []
        for one in self.files.opened:
            try:
                self._group([one], StreamRanks.of(one.streams), self.unit.limit)
            except DAMAGE as error:
                damaged.append((one, str(error).splitlines()[0]))
        for one, reason in damaged:
            self.opener.replace_damaged(self.unit, self.files, one, reason)
        return bool(damaged)


def without_repeats(rows: pa.Table) -> pa.Table:
    """The first of rows with equal (stream, time, line, metadata)."""
    keys = ["tsns", "labels", "line", "metadata", "parsed"]
    plain = rows.select(keys).set_column(1, "labels", rows["labels"].combine_chunks().indices)
    numbered = plain.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    kept = numbered.group_by(keys, use_threads=False).aggregate([("row", "min")])["row_min"]
    return rows.take(kept.combine_chunks().sort())


def _share(unit: LogUnit, one: Opened) -> float:
    """How much of a segment lies in the unit, by time: several units may read parts of it."""
    low, high = one.segment.min_ns, one.segment.max_ns + 1
    return (min(high, unit.end_ns) - max(low, unit.start_ns)) / (high - low)


def _check_size(found: pa.Table) -> None:
    if found.nbytes > MAX_ANSWER_BYTES:
        raise LimitExceededError(
            f"{found.num_rows} rows are {found.nbytes >> 20} MiB, more than {MAX_ANSWER_BYTES >> 20} MiB: "
            "lower the limit, or narrow the time range or the filters"
        )


def _rendered(
    found: pa.Table, files: Sequence[str], footers: Sequence[Footer], ranks: StreamRanks
) -> pa.Table:
    rank = found["rank"].combine_chunks().cast(pa.int32())
    file = pc.index_in(found["scanned_file"].combine_chunks(), value_set=pa.array(files, pa.string()))
    columns = [
        found["chq_tsns"],
        pa.DictionaryArray.from_arrays(rank, pa.array(ranks.json, pa.string())),
        pc.fill_null(found["log_message"], ""),
        metadata_json(Scanned(found, file, rank, footers, ranks.labels)),
        pa.repeat(pa.scalar("{}", pa.string()), found.num_rows),
        found["chq_object"],
        found["chq_position"],
    ]
    return pa.table(dict(zip(ROWS.names, columns, strict=True))).cast(ROWS)


def _ordered(parts: Sequence[pa.Table], reverse: bool, limit: int) -> pa.Table:
    """One part comes ordered from DuckDB; several (see grouping.py) are ordered together."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts).combine_chunks()
    keyed = rows.append_column("rank", rows["labels"].combine_chunks().indices)
    direction = "descending" if reverse else "ascending"
    order = pc.sort_indices(keyed, [(key, direction) for key in ("tsns", "rank", "object", "position")])
    return rows.take(order.slice(0, limit))
