"""Fields that an answer shows for each span: those that the query names.

    { span.a > 1 && kind = server } | select(name)

    span.a   shown where a condition on it holds: of a list the elements for which it does
    kind     the same
    name     shown always, as all that is selected, grouped by or computed with

A name without a scope stands for the attribute of the span and for that of the resource.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.traceql.expressions import as_stored
from lakerunner_query.traceql.lang.ast import (
    NIL,
    Attribute,
    CompareOp,
    Comparison,
    Field,
    Intrinsic,
    Literal,
    Node,
    Query,
    Scope,
    Type,
    children,
)
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.values import MIRRORED, Column, Part, part_matches, part_meets
from resources.arrays import Flags

PARENT, NO_PARENT = Intrinsic("span:parentID"), Literal(Type.STRING, "0" * 16)


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A comparison of a field with a constant."""

    op: CompareOp
    literal: Literal

    def flags(self, part: Part) -> Flags:
        """Flag the values that meet it."""
        if self.literal.type is Type.BOOLEAN and not part.is_list:  # Tempo reads the smallest columns whole
            return np.full(len(part.rows), part.kind is Type.BOOLEAN)
        if self.literal == NIL:
            return np.full(len(part.rows), self.op is CompareOp.NOT_EQUAL)
        if self.op.is_regex:
            return part_matches(part, str(self.literal.value), is_negated=self.op is CompareOp.NOT_REGEX)
        return part_meets(part, self.op.value, self.literal)


@dataclass(frozen=True, slots=True)
class ShownField:
    field: Field
    conditions: tuple[FieldCondition, ...] | None
    """Conditions of which a value meets one to be shown; None: all values are."""

    @property
    def absent(self) -> Literal | None:
        """Return what spans without the field show; None: nothing."""
        if self.field == PARENT and self.conditions is None:
            return NO_PARENT
        shows_nil = any(one.op is CompareOp.EQUAL and one.literal == NIL for one in self.conditions or ())
        return NIL if shows_nil else None

    @property
    def is_repeated(self) -> bool:
        """Tell fields of events and links, of which an answer shows one value."""
        if isinstance(self.field, Intrinsic):
            return INTRINSICS[self.field.name].home.is_repeated
        return self.field.scope in {Scope.EVENT, Scope.LINK}

    def select(self, column: Column) -> Column:
        """Keep the values that are shown."""
        if self.conditions is None:
            return column
        parts = [
            part.take(np.logical_or.reduce([one.flags(part) for one in self.conditions]))
            for part in column.parts
        ]
        return Column(column.size, tuple(part for part in parts if len(part.rows)))


def shown_fields(query: Query) -> list[ShownField]:
    """Return the fields of an answer, in a fixed order."""
    found: dict[Field, list[FieldCondition] | None] = {}
    waiting: list[Node] = [query.body]
    while waiting:
        node = waiting.pop()
        condition = _condition(node) if isinstance(node, Comparison) else None
        if condition is not None:
            for field in _scoped(condition[0]):
                known = found.setdefault(field, [])
                if known is not None:
                    known.append(condition[1])
        else:
            if isinstance(node, Attribute | Intrinsic):
                found |= dict.fromkeys(_scoped(node))
            waiting += children(node)
    return [
        ShownField(field, None if conditions is None else tuple(conditions))
        for field, conditions in sorted(found.items(), key=lambda one: repr(one[0]))
    ]


def _scoped(field: Field) -> tuple[Field, ...]:
    """Return the fields that a name without a scope stands for."""
    if isinstance(field, Attribute) and field.scope is Scope.NONE:
        return Attribute(field.name, Scope.SPAN), Attribute(field.name, Scope.RESOURCE)
    return (field,)


def _condition(node: Comparison) -> tuple[Field, FieldCondition] | None:
    """Return a comparison of a field with a constant; None for any other."""
    left, right = node.left, node.right
    if isinstance(left, Attribute | Intrinsic) and isinstance(right, Literal):
        return left, FieldCondition(node.op, _stored(node.op, left, right))
    if isinstance(right, Attribute | Intrinsic) and isinstance(left, Literal) and not node.op.is_regex:
        return right, FieldCondition(CompareOp(MIRRORED[node.op.value]), as_stored(right, left))
    return None


def _stored(op: CompareOp, field: Field, literal: Literal) -> Literal:
    return literal if op.is_regex else as_stored(field, literal)
