"""The worker's side of shards: the parts of an expression for one of them, and the rest from all of them."""

from __future__ import annotations

from collections.abc import Sequence

from lakerunner_query.execute.metric_merge import annotation
from lakerunner_query.plan.promql import per_series
from lakerunner_query.promql.context import Annotation, Given
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.protocol.answers import Note, ShardAnswer, ShardPart, notes_together
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Series, Steps
from lakerunner_query.windows.functions import Function, Grid
from lakerunner_query.worker.metrics.shard_vectors import decode_vector, encode_vector, together


class NothingToRead:
    """The source of an expression all of whose selectors lie inside of parts that are given."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        raise _unexpected(f"{list(matchers)} in ({from_ms}, {to_ms}]")

    def over_windows(self, function: Function, matchers: Sequence[Matcher], grid: Grid) -> None:
        raise _unexpected(f"{function.name} of {list(matchers)} in ({grid.from_ms}, {grid.to_ms}]")


def _unexpected(what: str) -> ValueError:
    return ValueError(f"{what}: expected inside of a part that shards have answered")


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    found = per_series(expr)
    if found is None:
        raise ValueError("an expression that is not of single series was cut into shards")
    return found


def shard_parts(found: Sequence[Given]) -> tuple[ShardPart, ...]:
    return tuple(ShardPart(encode_vector(part.vector), tuple(map(_note, part.annotations))) for part in found)


def given(expr: Expr, steps: Steps, shards: Sequence[ShardAnswer]) -> dict[int, Given]:
    """The value of each part, by its id."""
    found: dict[int, Given] = {}
    each = zip(*(shard.parts for shard in shards), strict=True)
    for part, answers in zip(parts_of(expr), each, strict=True):
        notes = notes_together([answer.notes for answer in answers])
        if notes is None:
            raise ValueError("shards whose annotations have no order were put together")
        vector = together([decode_vector(answer.vector) for answer in answers], steps.count)
        found[id(part)] = Given(vector, tuple(map(annotation, notes)))
    return found


def _note(one: Annotation) -> Note:
    if one.forced is not None:
        raise ValueError(f"{one.base}: expected of a part nothing that is told of many series")
    return Note(one.kind, one.base, "", None, (one.span.start, one.span.end))
