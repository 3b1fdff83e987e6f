"""Line patterns are counted by fingerprint; one line of each gives the pattern's text.

    fingerprint  bucket  lines                pattern           counts
    F1           7       120        ->        took <_>          7: 120, 8: 30
    F1           8       30

Counting reads numbers only. The text of one line is read for the most frequent fingerprints, from the newest
file that has such lines; others are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.answers import LinePattern, PatternsAnswer
from lakerunner_query.protocol.units import PatternsUnit, UnitReport
from lakerunner_query.worker.logs.scan_intervals import chunks_to_read, fetch
from lakerunner_query.worker.logs.segment_opener import (
    DAMAGE,
    NO_DAMAGE,
    OpenSegment,
    OpenSegments,
    ScanResources,
    SegmentOpener,
    discard_damaged,
)
from lakerunner_query.worker.logs.stream_filter import StreamFilter
from resources.duckdb import Cancellation, DuckSession
from resources.lake.columns import CHQ_FINGERPRINT, CHQ_STREAM_ID, CHQ_TSNS

MASKED_CHARACTERS = 4096
"""Beginning of a line that is masked; the fingerprint covers no more either."""
HOLE = "<_>"
_PIECE = re.compile(r"""(?P<quote>"(?:[^"\\]|\\.)*":?|(?<!\w)'(?:[^'\\]|\\.)+')|[+-]?[\w.:,%-]+""")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGIT = re.compile(r"\d")
_HOLES = re.compile(f"(?:{HOLE}){{2,}}")


def pattern_of(line: str) -> str:
    """Mask what differs between lines of one fingerprint, so that `|>` finds the others.

    Whole words with a digit and quoted texts are masked, which is never less than the fingerprint masks.

    >>> pattern_of('GET /u/42 from 10.0.0.1:8080, "Mozilla" in -1.5s {"id": "x"}')
    'GET /u/<_> from <_>, "<_>" in <_> {"id": "<_>"}'
    """
    masked = _PIECE.sub(_mask, line[:MASKED_CHARACTERS]) + (HOLE if len(line) > MASKED_CHARACTERS else "")
    return _HOLES.sub(HOLE, masked)


def _mask(found: re.Match[str]) -> str:
    text = found[0]
    if found["quote"]:
        is_key_or_empty = text.endswith(":") or len(text) == 2
        return text if is_key_or_empty else text[0] + HOLE + text[0]
    if not (_DIGIT.search(text) or _UUID.fullmatch(text)):
        return text
    return HOLE + text[len(text.rstrip(".:,-")) :]


LEVEL = "detected_level"
NO_LEVEL = "unknown"
MAX_COUNTS = 2_000_000
_KEYS = ["fingerprint", "level", "bucket"]


class PatternReader:
    """Answers units about patterns."""

    def __init__(self, opener: SegmentOpener, session: DuckSession) -> None:
        self._opener = opener
        self._session = session

    def run(self, unit: PatternsUnit, cancellation: Cancellation) -> PatternsAnswer:
        stream_filter = StreamFilter(unit.matchers, unit.start_ns, unit.end_ns)
        with self._opener.open(unit.segments, stream_filter, cancellation) as files:
            patterns = self._from_readable(stream_filter, files, unit, cancellation)
            report = UnitReport(
                missing=tuple(files.missing),
                segments_opened=len(files.opened),
                segments_skipped=files.skipped,
                bytes_fetched=files.meter.bytes,
                requests=files.meter.requests,
            )
        return PatternsAnswer(patterns, report)

    def _from_readable(
        self, stream_filter: StreamFilter, files: OpenSegments, unit: PatternsUnit, cancellation: Cancellation
    ) -> tuple[LinePattern, ...]:
        """Read all files; leave out damaged ones and read the others again."""
        reader = _Reader(unit, self._session, cancellation)
        resources = ScanResources(self._opener, self._session, cancellation)
        while True:
            try:
                reader.fetch_counts(files.opened)
                return reader.patterns([(one, reader.counts(one)) for one in files.opened])
            except NO_DAMAGE:
                raise
            except DAMAGE:
                if not discard_damaged(stream_filter, files, resources):
                    raise


@dataclass(frozen=True, slots=True)
class _Reader:
    unit: PatternsUnit
    session: DuckSession
    cancellation: Cancellation

    def fetch_counts(self, files: Sequence[OpenSegment]) -> None:
        columns = (CHQ_TSNS, CHQ_STREAM_ID, CHQ_FINGERPRINT, LEVEL)
        fetch(chunks_to_read(files, columns, self.unit.start_ns, self.unit.end_ns))

    def counts(self, one: OpenSegment) -> pa.Table:
        """Count lines of one file as (fingerprint, level, bucket, lines)."""
        level = f"coalesce(l.{LEVEL}, '{NO_LEVEL}')" if LEVEL in one.footer.columns else f"'{NO_LEVEL}'"
        found = self._query(
            one,
            f"SELECT l.{CHQ_FINGERPRINT} AS fingerprint, {level} AS level, "
            f"l.{CHQ_TSNS} // {int(self.unit.step_ns)} AS bucket, count(*) AS lines",
            "",
            f"GROUP BY ALL LIMIT {MAX_COUNTS}",
        )
        if found.num_rows >= MAX_COUNTS:
            raise LimitExceededError("too many patterns: narrow the time range, or use a larger step")
        return found

    def patterns(self, by_file: Sequence[tuple[OpenSegment, pa.Table]]) -> tuple[LinePattern, ...]:
        if not by_file:
            return ()
        whole = pa.concat_tables([counts for _, counts in by_file])
        ranked = whole.group_by("fingerprint").aggregate([("lines", "sum")]).sort_by(
            [("lines_sum", "descending"), ("fingerprint", "ascending")]
        )["fingerprint"]  # fmt: skip
        chosen = ranked.slice(0, self.unit.limit).combine_chunks()
        texts = self._texts(by_file, chosen)
        sums = whole.filter(pc.is_in(whole["fingerprint"], value_set=chosen)).group_by(_KEYS)
        found: dict[tuple[str, str], Counter[int]] = {}
        for row in sums.aggregate([("lines", "sum")]).to_pylist():
            text = texts[row["fingerprint"]]
            found.setdefault((text, row["level"]), Counter())[row["bucket"]] += row["lines_sum"]
        return tuple(LinePattern(*key, tuple(sorted(each.items()))) for key, each in sorted(found.items()))

    def _texts(self, by_file: Sequence[tuple[OpenSegment, pa.Table]], chosen: pa.Array) -> dict[int, str]:
        """Return patterns by fingerprint, from one line of the newest file that has it."""
        left, found = set(chosen.to_pylist()), dict[int, str]()
        for one, counts in sorted(by_file, key=lambda each: -each[0].segment.max_ns):
            here = left & set(counts["fingerprint"].unique().to_pylist())
            if here:
                lines = self._query(
                    one,
                    f"SELECT l.{CHQ_FINGERPRINT} AS fingerprint, min(coalesce(l.log_message, '')) AS line",
                    f"AND l.{CHQ_FINGERPRINT} IN ({', '.join(map(str, sorted(here)))})",
                    "GROUP BY ALL",
                )
                columns = (lines[name].to_pylist() for name in ("fingerprint", "line"))
                found |= {key: pattern_of(line) for key, line in zip(*columns, strict=True)}
                left -= here
        return found

    def _query(self, one: OpenSegment, selected: str, condition: str, rest: str) -> pa.Table:
        streams = pa.table({"stream_id": pa.array([each.stream_id for each in one.streams], pa.int64())})
        statement = (
            f"{selected} FROM read_parquet($file) l SEMI JOIN streams s ON l.{CHQ_STREAM_ID} = s.stream_id "
            f"WHERE l.{CHQ_TSNS} >= {int(self.unit.start_ns)} AND l.{CHQ_TSNS} < {int(self.unit.end_ns)} "
            f"{condition} {rest}"
        )
        with self.session.cursor() as cursor:
            cursor.register("streams", streams)
            relation = cursor.sql(statement, params={"file": one.name})
            found: pa.Table = self.cancellation.run(cursor, relation.to_arrow_table)
        return found
