"""The cursor walks the tokens of a query and bounds its length and depth.

An error about a misplaced token names the innermost construct around it that has a wording of its own:
`sum(a b)` is "unexpected identifier "b" in aggregation".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from lakerunner_query.errors import PromParseError
from lakerunner_query.promql.lang.ast import (
    NOWHERE,
    Duration,
    DurationCall,
    DurationExpr,
    DurationNumber,
    Expr,
    Matrix,
    Selector,
    Span,
    Subquery,
    children,
)
from lakerunner_query.promql.lang.lexer import END, Lexer, Token, failure


@dataclass(frozen=True, slots=True)
class Features:
    """Optional parts of the language, each behind one of Prometheus' feature flags."""

    duration_expressions: ClassVar[bool] = True
    """Part of the language since Prometheus 3.14; their flag is known and changes nothing."""
    experimental_functions: bool = True
    extended_range_selectors: bool = True
    """Modifiers `anchored` and `smoothed`."""
    fill_modifiers: bool = True
    """Modifiers `fill(x)`, `fill_left(x)` and `fill_right(x)` between vectors."""

    @classmethod
    def from_flags(cls, flags: Iterable[str]) -> Features:
        """Enable the parts that feature flags name, such as `promql-binop-fill-modifiers`."""
        wanted = set(flags)
        known = {*_FLAGS, _WITHOUT_EFFECT}
        if unknown := wanted - known:
            raise ValueError(f"unknown PromQL features {sorted(unknown)}, there are {sorted(known)}")
        return cls(**{part: flag in wanted for flag, part in _FLAGS.items()})


_FLAGS = {
    "promql-experimental-functions": "experimental_functions",
    "promql-extended-range-selectors": "extended_range_selectors",
    "promql-binop-fill-modifiers": "fill_modifiers",
}
_WITHOUT_EFFECT = "promql-duration-expr"
ALL_FEATURES = Features()
STABLE_FEATURES = Features.from_flags(())


class Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self.end = 0
        """End of the last token taken."""
        self._surroundings: list[tuple[str, str]] = [("", "")]

    @property
    def next(self) -> Token:
        """Read the next token, only when needed: a parser error may precede a lexer error."""
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def look_ahead(self) -> None:
        """Read the next token, which may raise, without taking it."""
        _ = self.next

    def take(self) -> Token:
        token = self.next
        self.end = token.span.end
        if token.kind != END:
            self._ahead = None
        return token

    def take_if(self, *kinds: str) -> Token | None:
        return self.take() if self.next.kind in kinds else None

    def expect(self, kinds: Collection[str], surrounding: str = "", expected: str = "") -> Token:
        """Take the next token, or raise if it is of none of the kinds."""
        if self.next.kind in kinds:
            return self.take()
        if surrounding:
            self._surroundings.append((surrounding, expected))
        raise self.unexpected()

    @contextmanager
    def inside(self, surrounding: str, expected: str = "") -> Iterator[None]:
        """Blame tokens that are misplaced meanwhile on the surrounding."""
        self._surroundings.append((surrounding, expected))
        yield
        self._surroundings.pop()

    def unexpected(self) -> PromParseError:
        surrounding, expected = self._surroundings[-1]
        message = f"unexpected {self.next.describe()}"
        message += f" in {surrounding}" if surrounding else ""
        message += f", expected {expected}" if expected else ""
        return self.failure(message, self.next.span)

    def failure(self, reason: str, span: Span = NOWHERE) -> PromParseError:
        return failure(self.text, reason, span)


def join_spans(first: Span, last: Span) -> Span:
    return Span(first.start, last.end)


MAX_LENGTH = 1 << 20
MAX_DEPTH = 500
"""Upper bound of levels, so that readers may recurse.

A chain `a or b or c` has one per operator; duration expressions count too.
"""
_Node = Expr | DurationExpr
_TASKS_PER_LEVEL = 5
"""Upper bound of the tasks that the parser needs for one level of the tree."""


def check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        reason = f"query is too long: {len(text)} characters, at most {MAX_LENGTH} are allowed"
        raise failure(text, reason, NOWHERE)


def check_task_count(cursor: Cursor, waiting: int) -> None:
    if waiting > MAX_DEPTH * _TASKS_PER_LEVEL:
        raise _too_deep(cursor, cursor.next.span)


def check_depth(cursor: Cursor, expr: Expr) -> None:
    level: list[_Node] = [expr]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _nodes_below(parent)]
        if not level:
            return
    raise _too_deep(cursor, level[0].span)


def _nodes_below(node: _Node) -> Iterator[_Node]:
    """Yield the expressions and duration expressions directly below."""
    match node:
        case DurationCall():
            yield from node.arguments
        case Matrix():
            yield from _expressions(node.range)
        case Subquery():
            yield from _expressions(node.range, node.step, node.shift.offset)
        case Selector():
            yield from _expressions(node.shift.offset)
    if not isinstance(node, DurationCall | DurationNumber):
        yield from children(node)


def _expressions(*durations: Duration | None) -> Iterator[DurationExpr]:
    return (one for one in durations if isinstance(one, DurationCall | DurationNumber))


def _too_deep(cursor: Cursor, span: Span) -> Exception:
    return cursor.failure(f"expression is nested more than {MAX_DEPTH} levels deep", span)
