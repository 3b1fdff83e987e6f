"""Label matchers and stackless recursion, which all query languages share.

A task yields the tasks it needs and is sent their results, so deep trees need no Python stack.

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
    """A condition on a label, `job="api"`; an absent label has the empty value."""

    name: str
    op: MatchOp
    value: str
    position: Position = field(default=START, compare=False)


T = TypeVar("T")
Task = Generator[Generator[Any, Any, Any], Any, T]
"""A task with a typed result; annotate at the `yield` what comes back."""


def unwind(task: Task[T], at_depth: Callable[[int], None] | None = None) -> T:
    """Run a task to its result; `at_depth` gets the number of waiting tasks and may raise."""
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
    """Return the results of several tasks, in order."""
    results: list[T] = []
    for task in tasks:
        result: T = yield task
        results.append(result)
    return results
