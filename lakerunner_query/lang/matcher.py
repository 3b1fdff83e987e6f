"""A condition on a label: what all query languages here share.

{job="api", path=~"/v1/.*"}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from lakerunner_query.errors import Position

START = Position(1, 1)


class MatchOp(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"

    @property
    def is_regex(self) -> bool:
        return self in {MatchOp.REGEX, MatchOp.NOT_REGEX}

    @property
    def is_negative(self) -> bool:
        return self in {MatchOp.NOT_EQUAL, MatchOp.NOT_REGEX}


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a stream label; an absent label has the empty value."""

    name: str
    op: MatchOp
    value: str
    position: Position = field(default=START, compare=False)
