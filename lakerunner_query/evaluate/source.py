"""Where samples come from, as evaluation sees it.

Nothing here knows of files: the golden tests, the lake's segments and subqueries are all sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Series
from lakerunner_query.windows.functions import Evaluated, Function, Grid


@dataclass(frozen=True, slots=True)
class Answered:
    """A function over windows that the source computed itself, from floats only."""

    labels: list[Labels]
    found: Evaluated


class Source(Protocol):
    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        """Samples in `(from_ms, to_ms]` of the series that match, series without any left out.

        Every series once, ordered by labels; stale markers are there.
        """
        ...

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> Answered | None:
        """The function over each window, if that can be told exactly without handing out samples, else None.

        None whenever a matching series has histograms in the windows.
        """
        ...
