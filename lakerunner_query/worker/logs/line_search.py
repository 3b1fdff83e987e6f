"""Lines with a text are found in the pages of messages, without SQL.

    |= "timeout" !~ "attempt=[0-3]"        "timeout" in the bytes of a page, the other filter for those

A regular expression is searched by texts that all its matches have. Messages that are stored in another way
than as plain texts are left to DuckDB, and so are damaged ones: it names the damage.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from lakerunner_query.gotext.regexp_words import required_texts
from lakerunner_query.logql.kernels.strings import strings
from lakerunner_query.logql.lang.ast import LineFilter, Stage
from lakerunner_query.logql.stages.filters import matching_lines
from lakerunner_query.worker.logs.page_counts import UNREADABLE
from lakerunner_query.worker.logs.row_fetch import MESSAGE
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.parquet.column_chunks import PLAIN, Chunk, page_bytes, pages_in
from lakerunner_query.worker.parquet.page_kernels import DATA_PAGE, ENCODING, KIND, UNKNOWN, VALUES
from lakerunner_query.worker.parquet.text_kernels import copy_texts, mark_texts, text_places
from resources.arrays import Bytes, Flags, Int64s
from resources.duckdb import Cancellation

SHORTEST_IN_REGEX = 3
"""Shorter texts of regular expressions are in too many lines."""
MOST_NEEDLES = 4
MOST_IN_BATCH = 8
"""Row groups that a thread searches before it looks for others."""
MOST_BYTES = 16 << 20
"""Lines of a row group that are kept; DuckDB has a bound of its own for more."""
THREADS = len(os.sched_getaffinity(0))
SIFTED_BYTES = 4 << 20
"""Lines that wait for the other filters."""
NO_ROWS, NO_LINES = np.zeros(0, np.int64), pa.array([], pa.string())
YIELD = 5
"""Niceness of the threads that search, as of DuckDB's."""


def _yield_to_others() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), YIELD)


_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="search", initializer=_yield_to_others)


@dataclass(frozen=True, slots=True)
class FoundLines:
    """Rows of a row group whose lines pass, and these lines."""

    number: int
    rows: Int64s
    """Row numbers within the row group, ascending."""
    lines: pa.StringArray
    """Empty where nobody wants them."""


@dataclass(frozen=True, slots=True)
class LineSearch:
    """Line filters, and the texts one of which is in every line that passes."""

    filters: tuple[LineFilter, ...]
    needles: tuple[Bytes, ...]
    is_exact: bool
    """A line with one of the texts passes."""
    keeps_lines: bool = True

    @classmethod
    def of(cls, stages: Sequence[Stage], *, keeps_lines: bool = True) -> LineSearch | None:
        """Choose the filter with the longest text; None where none has one."""
        filters = tuple(stage for stage in stages if isinstance(stage, LineFilter))
        if len(filters) < len(stages):
            return None
        found = [(one, needles) for one in filters if (needles := _needles(one))]
        if not found:
            return None
        chosen, needles = max(found, key=lambda each: min(map(len, each[1])))
        is_exact = len(filters) == 1 and not chosen.op.is_regex
        return cls(filters, tuple(np.frombuffer(one, np.uint8) for one in needles), is_exact, keeps_lines)

    def in_groups(
        self, one: OpenSegment, numbers: Sequence[int], cancellation: Cancellation, most: int | None = None
    ) -> list[FoundLines | None]:
        """Search row groups; None where DuckDB has to, or one has more than `most` lines."""
        sieve = _Sieve(self, most)
        for number in numbers:
            cancellation.check()
            try:
                self._search(one, number, sieve)
            except UNREADABLE:
                sieve.refused.add(number)
        sieve.sift()
        return [sieve.found(number) for number in numbers]

    def _search(self, one: OpenSegment, number: int, sieve: _Sieve) -> None:
        chunk = one.footer.plain_chunks(MESSAGE)[number]
        if chunk is None:
            sieve.refused.add(number)
            return
        count = int(one.footer.groups.first[number + 1] - one.footer.groups.first[number])
        raw = np.frombuffer(one.read(chunk.offset, chunk.length), np.uint8)
        first = 0
        for page in pages_in(raw, count).tolist():
            if number in sieve.refused:
                return
            rows, lines = self._in_page(raw, page, chunk)
            if len(rows):
                sieve.add(number, rows + first, lines)
            first += page[VALUES]

    def _in_page(self, raw: Bytes, page: Sequence[int], chunk: Chunk) -> tuple[Int64s, pa.StringArray]:
        """Return the rows with one of the texts, and their lines unless nobody wants them."""
        if page[KIND] != DATA_PAGE or page[ENCODING] != PLAIN:
            raise ValueError(f"a page of kind {page[KIND]}, encoding {page[ENCODING]}, not of plain texts")
        data, at = page_bytes(raw, page, chunk)
        begin = np.empty(page[VALUES] + 1, np.int64)
        if text_places(data, at, begin) == UNKNOWN:
            raise ValueError("a page whose texts do not fill it: some may be null")
        flags = np.zeros(page[VALUES], np.bool_)
        for needle in self.needles:
            mark_texts(data, begin, needle, flags)
        rows = np.flatnonzero(flags)
        if not len(rows) or (self.is_exact and not self.keeps_lines):
            return rows, NO_LINES
        offsets = np.empty(len(rows) + 1, np.int32)
        return rows, strings(copy_texts(data, begin, rows, offsets), offsets)


Piece = tuple[int, Int64s, pa.StringArray]
"""Lines of a row group."""


@dataclass(slots=True)
class _Sieve:
    """Takes lines with one of the texts and keeps those that pass, many at a time."""

    search: LineSearch
    most: int | None
    refused: set[int] = field(default_factory=set)
    """Row groups that DuckDB has to search."""
    _waiting: list[Piece] = field(default_factory=list)
    _bytes: int = 0
    _passed: dict[int, list[Piece]] = field(default_factory=dict)

    def add(self, number: int, rows: Int64s, lines: pa.StringArray) -> None:
        self._waiting.append((number, rows, lines))
        self._bytes += lines.nbytes
        if self._bytes > SIFTED_BYTES:
            self.sift()

    def sift(self) -> None:
        """Filter the lines that wait."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for piece in waiting if self.search.is_exact else self._passing(waiting):
            self._passed.setdefault(piece[0], []).append(piece)
        for number, pieces in self._passed.items() if self.most is not None else ():
            count, size = sum(len(rows) for _, rows, _ in pieces), sum(lines.nbytes for _, _, lines in pieces)
            if count > (self.most or 0) or size > MOST_BYTES:
                self.refused.add(number)

    def found(self, number: int) -> FoundLines | None:
        if number in self.refused:
            return None
        _, rows, lines = zip(*self._passed.get(number, [(number, NO_ROWS, NO_LINES)]), strict=True)
        return FoundLines(number, np.concatenate(rows), pa.concat_arrays(lines))

    def _passing(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        whole = pa.concat_arrays([NO_LINES, *(lines for _, _, lines in pieces)])
        passing: Flags = np.ones(len(whole), np.bool_)
        for each in self.search.filters:
            passing &= matching_lines(whole, each)
        first = 0
        for number, rows, lines in pieces:
            here = passing[first : first + len(rows)]
            first += len(rows)
            if here.any():
                kept = lines.filter(pa.array(here)) if self.search.keeps_lines else NO_LINES
                yield number, rows[here], kept


def search_groups(
    search: LineSearch,
    wanted: Sequence[tuple[OpenSegment, int]],
    cancellation: Cancellation,
    most: int | None = None,
) -> Iterator[FoundLines | None]:
    """Search row groups of files on all cores, and yield what is found in each, in order."""
    running = deque[Future[list[FoundLines | None]]]()
    for one, numbers in _batches(wanted):
        running.append(_threads.submit(search.in_groups, one, numbers, cancellation, most))
        if len(running) > 2 * THREADS:
            yield from running.popleft().result()
    while running:
        yield from running.popleft().result()


def _batches(wanted: Sequence[tuple[OpenSegment, int]]) -> Iterator[tuple[OpenSegment, list[int]]]:
    """Cut row groups into runs of one file: handing each over by itself costs as much as searching it."""
    most = max(1, min(MOST_IN_BATCH, len(wanted) // (2 * THREADS)))
    for _, run in groupby(wanted, key=lambda each: id(each[0])):
        groups = list(run)
        for first in range(0, len(groups), most):
            part = groups[first : first + most]
            yield part[0][0], [number for _, number in part]


def _needles(one: LineFilter) -> list[bytes]:
    """Return texts one of which is in every line that passes; none where that is unknown."""
    if one.op.is_negative or one.op.is_pattern or one.ips or len(one.values) > MOST_NEEDLES:
        return []
    if not one.op.is_regex:
        return [value.encode() for value in one.values] if all(one.values) else []
    ways = [way for value in one.values for way in required_texts(value) or ((),)]
    # a space in such a text may stand for another separator
    longest = [max(" ".join(way).split(" "), key=len).encode() for way in ways]
    is_worth_it = len(longest) <= MOST_NEEDLES and all(len(text) >= SHORTEST_IN_REGEX for text in longest)
    return longest if is_worth_it else []
