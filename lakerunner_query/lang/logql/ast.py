"""The syntax tree of LogQL: frozen values, positions kept out of equality.

Two queries that differ only in spacing or in how a string is quoted have equal trees; the printer and
its property test rely on that. A stage is one element of the pipeline behind the selector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from lakerunner_query.errors import Position
from lakerunner_query.lang.matcher import START, Matcher


class FilterOp(StrEnum):
    CONTAINS = "|="
    NOT_CONTAINS = "!="
    REGEX = "|~"
    NOT_REGEX = "!~"

    @property
    def is_regex(self) -> bool:
        return self in {FilterOp.REGEX, FilterOp.NOT_REGEX}

    @property
    def is_negative(self) -> bool:
        return self in {FilterOp.NOT_CONTAINS, FilterOp.NOT_REGEX}


@dataclass(frozen=True, slots=True)
class LineFilter:
    """A condition on the line; several values are an `or` chain and share the operator.

    Positive operators keep a line that matches any value, negative ones drop it.
    """

    op: FilterOp
    values: tuple[str, ...]
    position: Position = field(default=START, compare=False)


Stage = LineFilter


@dataclass(frozen=True, slots=True)
class LogQuery:
    matchers: tuple[Matcher, ...]
    stages: tuple[Stage, ...] = ()
