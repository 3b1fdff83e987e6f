"""Recursion over deep trees without Python's stack.

A task yields the tasks it needs and is sent their results.

def depth(expr: Expr) -> Task[int]:
    below: int = yield depth(expr.left)
    return below + 1
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from lakerunner_query.errors import Position

# << A condition on a label: what all query languages here share.
# <<
# << {job="api", path=~"/v1/.*"}

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


T = TypeVar("T")
Task = Generator[Generator[Any, Any, Any], Any, T]
"""Only the results of the tasks are typed; say at the `yield` what comes back."""


def unwind(task: Task[T], at_depth: Callable[[int], None] | None = None) -> T:
    """Run a task to its result; `at_depth` hears how many tasks wait for each other and may raise."""
    waiting: list[Task[Any]] = [task]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as finished:
            waiting.pop()
            result = finished.value
        else:
            if at_depth is not None:
                at_depth(len(waiting))
    final: T = result
    return final


def gather(tasks: Iterable[Task[T]]) -> Task[list[T]]:
    """The results of several tasks, in order."""
    results: list[T] = []
    for task in tasks:
        result: T = yield task
        results.append(result)
    return results
