"""Traces that can match are found before whole traces are read.

{ .user.id = "u-7" } >> { status = error }     one span has user.id u-7, another is an error

token blooms      segments without the word `u` or `7` hold no such span; if all do, nothing else is read
columns           user.id and trace ids of the others
whole traces      of the ids that are left, out of all segments
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakerunner_query.plan.trace_demands import has_words
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.traceql.expressions import evaluate_condition
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Comparison
from lakerunner_query.traceql.lang.conditions import AllOf, AnyOf, Condition, Requirement, SomeSpan
from lakerunner_query.worker.tables.segments import TableReader
from resources.arrays import Flags
from resources.lake.tokens import tokens


def may_hold(reader: TableReader, segment: SegmentRef, requirement: Requirement) -> bool:
    """Ask the token bloom of a segment for a span that meets the requirement."""
    match requirement:
        case Condition():
            if not has_words(requirement):
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
