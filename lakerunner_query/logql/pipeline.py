"""Run of a pipeline over a frame: each stage knows which labels are looked at behind it.

    | json | status >= 500 | line_format "{{.msg}}"

Lines are valid UTF-8: other bytes became U+FFFD when they came in, and are a space in labels of `json`,
`logfmt` and `unpack`. `stages/extract.py` bounds how many labels a parser makes of how many lines and how
many keys it knows, `kernels/json_scan.py` how deep objects go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakerunner_query.logql.frame import LogFrame, with_removed
from lakerunner_query.logql.lang.ast import LogQuery, Stage
from lakerunner_query.logql.lang.stage_functions import Names
from lakerunner_query.logql.lang.stages import row_of
from lakerunner_query.logql.lang.templates import runs_per_value
from lakerunner_query.logql.stages.registry import RUN_OF, Clock
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Demand:
    """Parts of a row that are looked at behind the pipeline; nothing else has to be read."""

    labels: frozenset[str] | None
    """None: all labels there are."""
    line: bool = True


@dataclass(frozen=True, slots=True)
class Buckets:
    """Lines counted by label set and time: bucket b covers `(start + b * width, start + (b + 1) * width]`."""

    labels: list[Labels]
    counts: Int64s
    """Lines by (label set, bucket)."""
    bytes: Int64s
    """UTF-8 lengths of the lines by (label set, bucket); undefined unless asked for."""


class LogSource(Protocol):
    """Rows as evaluation sees them: segments of the lake, or a list in memory in tests."""

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        """Yield rows in `(from_ns, to_ns]` behind all stages, in frames of bounded size, in any order."""
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
        """Count lines by labels and buckets; None if that takes rows."""
        ...


def has_parser(stages: Iterable[Stage]) -> bool:
    return any(row_of(stage).parses for stage in stages)


def labels_before(stages: Sequence[Stage], demand: Demand) -> list[Names]:
    """Return, per stage, the labels that it or anything behind it looks at; the demand comes last.

        | json | status >= 500, counted by (app)

        before json: app, status;  before the filter: app, status;  behind it: app

    Computed from the end: a stage adds what it reads itself, `keep` limits what went before. A label that is
    dropped stays in the set, because a parser behind must not give its name again. With this in hand a parser
    writes down nothing that nobody reads.
    """
    found: list[Names] = [demand.labels]
    for number in range(len(stages) - 1, -1, -1):
        found.append(_before(stages[number], found[-1], has_parser(stages[number + 1 :])))
    return found[::-1]


def _before(stage: Stage, behind: Names, parsed_later: bool) -> Names:
    row = row_of(stage)
    passed = None if parsed_later else row.labels_passed(stage)
    if passed is not None:
        return passed if behind is None else behind & passed
    if behind is None:
        return None
    read = row.labels_read(stage, behind)
    return None if read is None else behind | read


def apply(
    frame: LogFrame,
    stages: Sequence[Stage],
    demand: Demand,
    now_ns: int,
    check: Callable[[], None] | None = None,
) -> LogFrame:
    """Return the rows that pass all stages, with the labels of the demand (and maybe others).

    `check` is called while templates run, and raises where the query was cancelled or is too late.
    """
    names, clock = labels_before(stages, demand), Clock(now_ns, check)
    for number, stage in enumerate(stages):
        before = frame
        frame = RUN_OF[type(stage)](frame, stage, names[number + 1], clock)
        if row_of(stage).removes_labels and has_parser(stages[number + 1 :]):
            frame = with_removed(before, frame)
    return frame


def fallbacks(stages: Iterable[Stage]) -> list[str]:
    """Describe the stages that make Python objects, one per distinct input of a template."""
    return [
        f"{row_of(stage).keyword}: Python per distinct input of the template"
        for stage in stages
        if any(runs_per_value(*template) for template in row_of(stage).templates(stage))
    ]
