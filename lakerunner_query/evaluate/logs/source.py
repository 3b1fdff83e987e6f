"""Where log rows come from, as evaluation sees it: the lake's segments, or a list in memory in tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.lang.logql.ast import LogQuery
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Demand:
    """What of a row is looked at after the pipeline: less is read where less is wanted."""

    labels: frozenset[str] | None
    """None: all labels there are."""
    line: bool = True


@dataclass(frozen=True, slots=True)
class Buckets:
    """Lines counted by label set and time: bucket b covers `(start + b * width, start + (b + 1) * width]`."""

    labels: list[Labels]
    counts: Int64s
    """(label sets, buckets)."""
    bytes: Int64s
    """The same, of the lines' UTF-8 lengths; anything where they were not asked for."""


class LogSource(Protocol):
    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        """Rows in `(from_ns, to_ns]` with all stages applied, in frames of bounded size, in any order."""
        ...

    def buckets(
        self,
        query: LogQuery,
        by: tuple[str, ...],
        start_ns: int,
        width_ns: int,
        count: int,
        *,
        with_bytes: bool,
    ) -> Buckets | None:
        """Lines by these labels and buckets, if that can be told without handing out rows, else None."""
        ...
