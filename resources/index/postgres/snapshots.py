"""Snapshots answer all questions of one query, or of one plan, as of one moment.

A publication retires segments, adds others and changes versions in one transaction. Statements that see the
index before it and after it would find rows twice, or take a rollup for current that is not.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import psycopg
from psycopg.rows import DictRow

from resources.index.postgres.connections import Connection, PostgresPart
from resources.index.postgres.reading import partition_of, segment_of
from resources.index.rule_types import CoverageQuery, RuleGaps
from resources.index.statements import load
from resources.index.types import (
    CountQuery,
    Segment,
    SegmentQuery,
    Snapshot,
    Survey,
    TierQuery,
    TierView,
    WholeSegment,
)
from resources.lake.layout import Signal

SEGMENTS, TIERS = load("reading"), load("tiers")
ONE_MOMENT = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
SURVEYED_AT_ONCE = 2_000
MOST_KNOWN = 10_000
"""Segments that are remembered between questions, about a kilobyte each."""
ARRAY_HEAD = 20
"""Bytes before the elements of a one-dimensional array on the wire."""
Cursor = psycopg.Cursor[DictRow]


KnownSegments = dict[tuple[str, bool], Segment]
"""Segments without names by id, and by whether they are settled: nothing else of a row ever changes."""


class Snapshots(PostgresPart):
    @cached_property
    def _known(self) -> KnownSegments:
        return {}

    def snapshot(
        self,
        questions: Sequence[SegmentQuery],
        tiers: TierQuery | None = None,
        counted: CountQuery | None = None,
        coverage: Sequence[CoverageQuery] = (),
    ) -> Snapshot:
        distinct = list(dict.fromkeys(questions))
        with self._transaction() as connection:
            with connection.pipeline():  # all at once: waiting for each answer takes longer than the answers
                connection.execute(ONE_MOMENT)
                rows = SegmentRows(self._known)
                found = {question: _find(connection, question, rows) for question in distinct}
                seen = None if tiers is None else _see(connection, tiers)
                count = None if counted is None else _count(connection, counted)
                uncovered = [_ask_coverage(connection, asked) for asked in coverage]
                connection.commit()
            segments = {question: tuple(cursor.fetchall()) for question, cursor in found.items()}
            return Snapshot(
                tuple(segments[question] for question in questions),
                TierView((), ()) if seen is None else _view(*seen),
                live=None if count is None else int(count.fetchall()[0]["count"]),
                gaps=tuple(
                    gaps
                    for asked, cursor in zip(coverage, uncovered, strict=True)
                    for gaps in _gaps(asked, cursor)
                ),
            )

    def survey(
        self,
        questions: Sequence[SegmentQuery],
        tiers: Sequence[TierQuery],
        known: Collection[str],
        most: int,
    ) -> Survey:
        with self._transaction() as connection:
            connection.execute(ONE_MOMENT)
            live = [_live_ids(connection, question, most) for question in questions]
            new = set().union(*(found for found in live if found is not None)) - set(known)
            fresh: list[WholeSegment] = []
            ids = sorted(new)
            for at in range(0, len(ids), SURVEYED_AT_ONCE):
                some = {"ids": ids[at : at + SURVEYED_AT_ONCE]}
                rows = connection.execute(SEGMENTS["whole_segments"], some).fetchall()
                fresh += [WholeSegment(segment_of(row), _terms(row["terms_sent"])) for row in rows]
            seen = tuple(_view(*_see(connection, one)) for one in tiers)
        return Survey(tuple(live), tuple(fresh), seen)

    def find_segments(self, question: SegmentQuery) -> list[Segment]:
        """Answer one question, for people and tools."""
        return list(self.snapshot((question,)).segments[0])

    def tier_view(
        self,
        org: str,
        signal: Signal,
        frequencies_ms: Sequence[int],
        start_ns: int,
        end_ns: int,
        dataset: str = "",
    ) -> TierView:
        return self.snapshot(
            (), TierQuery(org, signal, tuple(frequencies_ms), start_ns, end_ns, dataset)
        ).tiers


class SegmentRows:
    """Makes segments of rows, each once; making a hundred takes longer than asking for them."""

    def __init__(self, known: KnownSegments) -> None:
        self._known = known
        self._named: KnownSegments = {}
        """Segments with their names, which are long: those of one snapshot only."""

    def __call__(self, cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Segment]:
        place = {column.name: at for at, column in enumerate(cursor.description or ())}
        key, settled, names = (place.get(name, 0) for name in ("segment_id", "settled", "label_names"))

        def segment(row: Sequence[Any]) -> Segment:
            known = self._known if row[names] is None else self._named
            identity = row[key], row[settled]
            found = known.get(identity)
            if found is None:
                found = segment_of({name: row[at] for name, at in place.items()})
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                known[identity] = found
            return found

        return segment


def _find(connection: Connection, question: SegmentQuery, rows: SegmentRows) -> psycopg.Cursor[Segment]:
    values: dict[str, Any] = {
        "org": question.org,
        "dataset": question.dataset,
        "frequency_ms": question.frequency_ms,
        "start_ns": question.start_ns,
        "end_ns": question.end_ns,
        "collectors": list(question.collectors) or None,
        "names": question.names,
    }
    statement = SEGMENTS["find_segments"]
    for number, alternatives in enumerate(question.terms):
        values[f"terms_{number}"] = list(alternatives)
        condition = f"WHERE\n    terms && %(terms_{number})s::bigint[]\n    AND ".encode()
        statement = statement.replace(b"WHERE\n    ", condition)
    return connection.cursor(row_factory=rows).execute(statement, values)


def _count(connection: Connection, counted: CountQuery) -> Cursor:
    return connection.execute(SEGMENTS["count_segments"], {"org": counted.org, "dataset": counted.dataset})


def _ask_coverage(connection: Connection, asked: CoverageQuery) -> Cursor:
    values = {
        "org": asked.org,
        "signal": asked.signal.value,
        "rule_ids": [rule for rule, _ in asked.rules],
        "versions": [version for _, version in asked.rules],
        "start_ns": asked.start_ns,
        "end_ns": asked.end_ns,
    }
    return connection.execute(TIERS["rule_gaps"], values)


def _gaps(asked: CoverageQuery, found: Cursor) -> list[RuleGaps]:
    hours: dict[int, list[int]] = {rule: [] for rule, _ in asked.rules}
    for row in found.fetchall():
        hours[row["rule_id"]].append(row["start_ns"])
    return [RuleGaps(rule, tuple(hours[rule])) for rule, _ in asked.rules]


def _live_ids(connection: Connection, question: SegmentQuery, most: int) -> tuple[str, ...] | None:
    values = {
        "org": question.org,
        "dataset": question.dataset,
        "frequency_ms": question.frequency_ms,
        "start_ns": question.start_ns,
        "end_ns": question.end_ns,
        "most": most + 1,
    }
    found = connection.execute(SEGMENTS["live_ids"], values).fetchall()
    return None if len(found) > most else tuple(row["segment_id"] for row in found)


def _terms(sent: bytes) -> bytes:
    """Read an array as PostgreSQL sends it: a head, then length and value of each element, big-endian."""
    words = array("i", sent[ARRAY_HEAD:])
    del words[::3]
    values = array("q", words.tobytes())
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()


def _see(connection: Connection, tiers: TierQuery) -> tuple[Cursor, Cursor]:
    values = {
        "org": tiers.org,
        "signal": tiers.signal.value,
        "frequencies_ms": list(tiers.frequencies_ms),
        "start_ns": tiers.start_ns,
        "end_ns": tiers.end_ns,
        "dataset": tiers.dataset,
    }
    partitions = connection.execute(TIERS["partitions_over"], values)
    return partitions, connection.execute(TIERS["segments_over"], values)


def _view(partitions: Cursor, segments: Cursor) -> TierView:
    return TierView(
        tuple(partition_of(row) for row in partitions.fetchall()),
        tuple(segment_of(row) for row in segments.fetchall()),
    )
