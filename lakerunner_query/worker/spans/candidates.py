"""Traces that can match are found before whole traces are read.

    { .user.id = "u-7" } >> { status = error }     one span has user.id u-7, another is an error

    token blooms      segments without the word `u` or `7` hold no such span; if all do, nothing else is read
    columns           user.id and trace ids of the others
    whole traces      of the ids that are left, out of all segments

Of several demands on a trace the one that is likely met by fewest spans is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.traceql.expressions import evaluate_condition
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import (
    Attribute,
    CompareOp,
    Comparison,
    Field,
    Intrinsic,
    Literal,
    Type,
)
from lakerunner_query.traceql.lang.conditions import (
    ANYTHING,
    AllOf,
    AnyOf,
    Condition,
    Requirement,
    SomeSpan,
)
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS, Home
from lakerunner_query.worker.tables.segments import TableReader
from resources.arrays import Flags
from resources.lake.tokens import tokens

MOST_SHARE = 0.5
"""Share of the traces from which on choosing among them costs more than reading all."""
SEARCHABLE = frozenset(
    {"name", "statusMessage", "event:name", "instrumentation:name", "instrumentation:version"}
)
"""Intrinsics whose words are in token blooms."""


def deciding_span(requirement: Requirement) -> Requirement | None:
    """Return what one span of a matching trace must meet; None: nothing is known."""
    match requirement:
        case SomeSpan(requirement=inside):
            return None if inside == ANYTHING or _looks_beyond(inside) else inside
        case AllOf(parts=parts):
            known = [one for one in map(deciding_span, parts) if one is not None]
            return max(known, key=_promise, default=None)
        case AnyOf(parts=parts):
            each = [deciding_span(one) for one in parts]
            return None if None in each else AnyOf(tuple(one for one in each if one is not None))
        case _:
            return None


def _looks_beyond(requirement: Requirement) -> bool:
    """Tell whether a demand on a span needs other spans of the trace."""
    fields = fields_of_requirement(requirement)
    homes = {INTRINSICS[one.name].home for one in fields if isinstance(one, Intrinsic)}
    return bool(homes & {Home.TRACE, Home.TREE})


def _promise(requirement: Requirement) -> int:
    """Rank demands: texts in blooms exclude whole segments, equalities more spans than others."""
    match requirement:
        case Condition():
            if requirement.op is CompareOp.EQUAL:
                return 3 if _has_words(requirement) else 2
            return 0 if requirement.op is CompareOp.NOT_EQUAL else 1
        case AllOf(parts=parts):
            return max(map(_promise, parts), default=0)
        case AnyOf(parts=parts):
            return min(map(_promise, parts), default=0)
        case SomeSpan(requirement=inside):
            return _promise(inside)


def fields_of_requirement(requirement: Requirement) -> Iterator[Field]:
    match requirement:
        case Condition(field=field):
            yield field
        case SomeSpan(requirement=inside):
            yield from fields_of_requirement(inside)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for one in parts:
                yield from fields_of_requirement(one)


def may_hold(reader: TableReader, segment: SegmentRef, requirement: Requirement) -> bool:
    """Ask the token bloom of a segment for a span that meets the requirement."""
    match requirement:
        case Condition():
            if not _has_words(requirement):
                return True
            return any(
                all(reader.may_hold(segment, [word]) for word in tokens(str(one.value)))
                for one in requirement.values
            )
        case AllOf(parts=parts):
            return all(may_hold(reader, segment, one) for one in parts)
        case AnyOf(parts=parts):
            return any(may_hold(reader, segment, one) for one in parts)
        case SomeSpan(requirement=inside):
            return may_hold(reader, segment, inside)


def _has_words(condition: Condition) -> bool:
    """Tell whether blooms know the values: plain texts, which JSON spells as they are."""
    field = condition.field
    if condition.op is not CompareOp.EQUAL or not (isinstance(field, Attribute) or field.name in SEARCHABLE):
        return False
    return all(_is_plain(one) for one in condition.values)


def _is_plain(literal: Literal) -> bool:
    text = literal.value
    if literal.type is not Type.STRING or not isinstance(text, str):
        return False
    return text.isascii() and text.isprintable() and not set(text) & set('"\\')


def meets(frame: Frame, requirement: Requirement) -> Flags:
    """Flag spans that meet a requirement."""
    match requirement:
        case Condition(field=field, op=op, values=values):
            flags = [evaluate_condition(frame, Comparison(op, field, one)) for one in values]
            found: Flags = np.logical_or.reduce(flags)
            return found
        case SomeSpan(requirement=inside):
            return meets(frame, inside)
        case AllOf(parts=parts):
            return _combined(np.logical_and, frame, parts, start=True)
        case AnyOf(parts=parts):
            return _combined(np.logical_or, frame, parts, start=False)


def _combined(both: np.ufunc, frame: Frame, parts: Iterable[Requirement], *, start: bool) -> Flags:
    flags: Flags = np.full(frame.size, start)
    for one in parts:
        flags = both(flags, meets(frame, one))
    return flags
