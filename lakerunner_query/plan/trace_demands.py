"""A demand on one span of a trace chooses segments: by terms of the index, then by words in blooms.

    { resource.service.name = "cart" && .user.id = "u-7" } >> { status = error }

    one span     service cart and user.id u-7: more is known of it than of the span with an error
    terms        service_name "cart": segments that the index gives
    words        `u` and `7`: those of them whose token blooms have both

Of several demands on a trace the one that is likely met by fewest spans decides. Other spans of its traces
are looked for in all segments.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakerunner_query.traceql.lang.ast import Attribute, CompareOp, Field, Intrinsic, Literal, Scope, Type
from lakerunner_query.traceql.lang.conditions import (
    ANYTHING,
    AllOf,
    AnyOf,
    Condition,
    Requirement,
    SomeSpan,
    all_of,
    any_of,
)
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS, Home
from resources.lake.streams import UNKNOWN_SERVICE
from resources.lake.terms import MAX_VALUES, alternatives

SEARCHABLE = frozenset(
    {"name", "statusMessage", "event:name", "instrumentation:name", "instrumentation:version"}
)
"""Intrinsics whose words are in token blooms."""
TERM_FIELDS: dict[Field, tuple[str, tuple[str, ...]]] = {
    Attribute("service.name", Scope.RESOURCE): ("service_name", (UNKNOWN_SERVICE,)),
    Intrinsic("name"): ("span_name", ()),
    Intrinsic("kind"): ("span_kind", ()),
    Intrinsic("status"): ("span_status_code", ()),
}
"""Terms by field, and values under which a segment may have any other one."""
DEFAULTS = frozenset({"", "unspecified", "unset"})
"""Values of spans for which nothing, or something unknown, was sent."""
Terms = tuple[tuple[int, ...], ...]


def index_terms(requirement: Requirement) -> Terms:
    """Return alternatives of terms: a segment with a span that meets the requirement has one of each."""
    match requirement:
        case Condition():
            return _terms_of(requirement)
        case SomeSpan(requirement=inside):
            return index_terms(inside)
        case AllOf(parts=parts):
            return tuple(terms for part in parts for terms in index_terms(part))
        case AnyOf(parts=parts):
            each = [index_terms(part) for part in parts]
            if not each or not all(each):
                return ()
            return (tuple(dict.fromkeys(one for terms in each for one in terms[0])),)


def _terms_of(condition: Condition) -> Terms:
    known = TERM_FIELDS.get(condition.field)
    texts = [one.value for one in condition.values]
    if known is None or condition.op is not CompareOp.EQUAL or len(texts) > MAX_VALUES:
        return ()
    if not all(isinstance(text, str) and text not in DEFAULTS for text in texts):
        return ()
    field, others = known
    return (alternatives(field, (*map(str, texts), *others)),)


def deciding_span(requirement: Requirement) -> Requirement | None:
    """Return what one span of a matching trace must meet; None: nothing is known."""
    match requirement:
        case SomeSpan(requirement=inside):
            known = of_span_alone(inside)
            return None if known == ANYTHING else known
        case AllOf(parts=parts):
            demands = [one for one in map(deciding_span, parts) if one is not None]
            return max(demands, key=_promise, default=None)
        case AnyOf(parts=parts):
            each = [deciding_span(one) for one in parts]
            return None if None in each else AnyOf(tuple(one for one in each if one is not None))
        case _:
            return None


def of_span_alone(requirement: Requirement) -> Requirement:
    """Leave out what needs other spans of the trace, and tests for roots: nearly every trace has one."""
    match requirement:
        case Condition():
            return ANYTHING if _looks_beyond(requirement) else requirement
        case AllOf(parts=parts):
            return all_of(part for part in map(of_span_alone, parts) if part != ANYTHING)
        case AnyOf(parts=parts):
            return any_of(map(of_span_alone, parts))
        case SomeSpan(requirement=inside):
            return of_span_alone(inside)


def _looks_beyond(condition: Condition) -> bool:
    field = condition.field
    return isinstance(field, Intrinsic) and INTRINSICS[field.name].home in {Home.TRACE, Home.TREE}


def _promise(requirement: Requirement) -> int:
    """Rank demands: texts in blooms exclude whole segments, equalities more spans than others."""
    match requirement:
        case Condition():
            if requirement.op is CompareOp.EQUAL:
                return 3 if has_words(requirement) else 2
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


def has_words(condition: Condition) -> bool:
    """Tell whether blooms know the values: plain texts, which JSON spells as they are."""
    field = condition.field
    if condition.op is not CompareOp.EQUAL or not (isinstance(field, Attribute) or field.name in SEARCHABLE):
        return False
    return all(_is_plain(one) for one in condition.values)


def names_rare_text(requirement: Requirement) -> bool:
    """Tell whether a demand names a text of an attribute that likely has many: no service, no name."""
    match requirement:
        case Condition():
            return has_words(requirement) and requirement.field not in TERM_FIELDS
        case SomeSpan(requirement=inside):
            return names_rare_text(inside)
        case AllOf(parts=parts):
            return any(map(names_rare_text, parts))
        case AnyOf(parts=parts):
            return all(map(names_rare_text, parts))


def _is_plain(literal: Literal) -> bool:
    text = literal.value
    if literal.type is not Type.STRING or not isinstance(text, str):
        return False
    return text.isascii() and text.isprintable() and not set(text) & set('"\\')
