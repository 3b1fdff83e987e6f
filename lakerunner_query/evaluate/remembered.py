"""A source that is asked the same only once: `x / x` reads x once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakerunner_query.evaluate.source import Answered, Source
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Series
from lakerunner_query.windows.functions import Function, Grid

_Selected = dict[tuple[tuple[Matcher, ...], int, int], Series]


@dataclass(frozen=True, slots=True)
class Remembered:
    source: Source
    selected: _Selected = field(default_factory=dict)
    """Of one query, and as long as that is evaluated."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        key = (tuple(matchers), from_ms, to_ms)
        if key not in self.selected:
            self.selected[key] = self.source.select(matchers, from_ms, to_ms)
        return self.selected[key]

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> Answered | None:
        return self.source.over_windows(function, matchers, grid)
