"""Which series the rows of a frame belong to: one number per row, the same for every frame.

    app   status            series
    web   200               0        app="web", status="200"
    db    (absent)          1        app="db"
    web   200               0

Label sets become Python's objects once per series of a frame, not once per row.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.grouping import grouped
from lakerunner_query.vectors.labels import coded
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Naming:
    """The labels that tell series apart: these, or all but these."""

    names: frozenset[str]
    is_without: bool
    drops_empty: bool = False
    """A label without a value is no label."""


class SeriesTable:
    """Numbers of label sets; an empty value is a value, unless the naming says otherwise."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._codes: dict[Labels, int] = {}

    @property
    def labels(self) -> list[Labels]:
        return list(self._codes)

    @property
    def count(self) -> int:
        return len(self._codes)

    def numbered(self, frame: LogFrame) -> Int64s:
        """The series of each row."""
        codes, labels = grouped(frame, self._naming.names, without=self._naming.is_without)
        if self._naming.drops_empty:
            labels = [tuple(pair for pair in one if pair[1]) for one in labels]
        return coded(labels, self._codes)[codes]
