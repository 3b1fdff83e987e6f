"""A plain evaluation of TraceQL's conditions, span by span: fields, trees, comparisons, arithmetic.

It follows docs/reference/traceql.md, has loops and dictionaries only, and shares nothing with the product but
the syntax tree. `Found` is what a field or an expression is for one span.
"""

from __future__ import annotations

import base64
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakerunner_query.traceql.lang.ast import (
    Arithmetic,
    Attribute,
    Comparison,
    FieldExpr,
    Intrinsic,
    Literal,
    Logical,
    LogicalOp,
    Negation,
    Not,
    Scope,
    Type,
)
from tests.support.query.traceql.random_traces import Span

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUSES = ("unset", "ok", "error")
SERVER = 2
NUMBERS = (Type.INTEGER, Type.FLOAT, Type.DURATION)
ORDER = (Type.ATTRIBUTE, Type.BOOLEAN, Type.INTEGER, Type.FLOAT, Type.STRING)
"""The last type stands for all where values of one span have several, as events do."""
Typed = tuple[Type, Any]
COMPARISONS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The values of a field for a span."""

    values: tuple[Typed, ...] = ()
    is_list: bool = False
    opaque: tuple[str, ...] = ()
    """Texts of values that conditions cannot compare: they are there, and that is all."""

    @property
    def is_there(self) -> bool:
        return bool(self.values) or bool(self.opaque)

    def number(self) -> Typed | None:
        """The value that arithmetic takes: lists have none."""
        ones = [] if self.is_list else [one for one in self.values if one[0] in NUMBERS]
        return ones[0] if ones else None

    def group(self) -> Typed | None:
        """The value that spans are grouped by; a list of one element is that element."""
        if not self.is_there:
            return None
        kinds = {kind for kind, _ in self.values} | ({Type.ATTRIBUTE} if self.opaque else set())
        kind = max(kinds, key=ORDER.index) if len(kinds) > 1 else next(iter(kinds))
        values = [value for one, value in self.values if one is kind]
        values = list(self.opaque) if kind is Type.ATTRIBUTE else values
        return kind, values[0] if len(values) == 1 else tuple(values)


NOTHING = Found()


def one(kind: Type, value: Any) -> Found:
    return Found(((kind, value),))


def text(value: str) -> Found:
    return one(Type.STRING, value)


def of_value(value: Any) -> Found:
    """An attribute as it was sent."""
    if isinstance(value, list):
        kinds = {type(each) for each in value}
        if len(kinds) != 1:
            return Found(opaque=(json.dumps(value, separators=(",", ":")),))
        return Found(tuple((_type(each), each) for each in value), is_list=True)
    if isinstance(value, dict):
        return Found(opaque=(json.dumps(value, separators=(",", ":")),))
    if isinstance(value, bytes):
        return Found(opaque=(base64.b64encode(value).decode(),))
    return one(_type(value), value)


def _type(value: Any) -> Type:
    return {bool: Type.BOOLEAN, int: Type.INTEGER, float: Type.FLOAT, str: Type.STRING}[type(value)]


def united(several: Iterable[Found]) -> Found:
    """All values of a field of events or links, together."""
    ones = list(several)
    values = tuple(value for each in ones for value in each.values)
    return Found(values, True, tuple(text for each in ones for text in each.opaque))


@dataclass
class Trace:
    """All spans of a trace, each once, in the order in which they were sent."""

    ident: bytes
    spans: list[Span]
    parents: list[int | None] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    """Nested sets; 0: no root leads to the span."""

    def __post_init__(self) -> None:
        self.parents = [self._parent(place) for place in range(len(self.spans))]
        self.left, self.right = [0] * len(self.spans), [0] * len(self.spans)
        number = 1
        for place in range(len(self.spans)):
            if self.is_root(place):
                number = self._number(place, number)

    def is_root(self, place: int) -> bool:
        return not any(self.spans[place].parent)

    def _parent(self, place: int) -> int | None:
        """The span with the id that this one names; of a client's and a server's, the server's."""
        if self.is_root(place):
            return None
        same = [at for at, each in enumerate(self.spans) if each.span == self.spans[place].parent]
        servers = [at for at in same if self.spans[at].kind == SERVER]
        chosen = servers[-1] if servers else same[0] if same else None
        return None if chosen == place else chosen

    def _number(self, place: int, number: int) -> int:
        self.left[place] = number
        number += 1
        for child, parent in enumerate(self.parents):
            if parent == place:
                number = self._number(child, number)
        self.right[place] = number
        return number + 1

    def has_place(self, place: int) -> bool:
        return self.left[place] > 0

    def ancestors(self, place: int) -> list[int]:
        found: list[int] = []
        above = self.parents[place] if self.has_place(place) else None
        while above is not None:
            found.append(above)
            above = self.parents[above]
        return found

    @property
    def start_ns(self) -> int:
        return min(each.start_ns for each in self.spans)

    @property
    def end_ns(self) -> int:
        return max(map(end_of, self.spans))

    def root_text(self, name: str) -> str:
        """The name or the service of the last root."""
        roots = [each for place, each in enumerate(self.spans) if self.is_root(place)]
        if not roots:
            return ""
        return roots[-1].name if name == "name" else str(roots[-1].resource.get("service.name", ""))


def end_of(span: Span) -> int:
    return span.end_ns or span.start_ns


def whole_traces(sent: Sequence[Span]) -> list[Trace]:
    """Put spans together by trace; one that was sent before, by id, kind and start, is left out."""
    known: set[tuple[bytes, bytes, int, int]] = set()
    by_trace: dict[bytes, list[Span]] = {}
    for each in sent:
        key = each.trace, each.span, each.kind, each.start_ns
        if not any(each.span) or key not in known:
            by_trace.setdefault(each.trace, []).append(each)
        known.add(key)
    return [Trace(ident, spans) for ident, spans in by_trace.items()]


@dataclass(frozen=True)
class At:
    """A span within its trace."""

    trace: Trace
    place: int

    @property
    def span(self) -> Span:
        return self.trace.spans[self.place]

    def field(self, asked: Attribute | Intrinsic) -> Found:
        if isinstance(asked, Intrinsic):
            return INTRINSICS[asked.name](self)
        if asked.scope is Scope.NONE:
            own = self._attribute(Scope.SPAN, asked.name)
            return own if own.is_there else self._attribute(Scope.RESOURCE, asked.name)
        return self._attribute(asked.scope, asked.name)

    def _attribute(self, scope: Scope, name: str) -> Found:
        span = self.span
        if scope is Scope.EVENT:
            return united(of_value(each.attributes[name]) for each in span.events if name in each.attributes)
        if scope is Scope.LINK:
            return united(of_value(each.attributes[name]) for each in span.links if name in each.attributes)
        if scope is Scope.RESOURCE and name == "service.name":
            return text(span.resource.get(name, ""))
        owner = {
            Scope.SPAN: span.attributes, Scope.RESOURCE: span.resource,
            Scope.INSTRUMENTATION: span.library.attributes,
        }[scope]  # fmt: skip
        return of_value(owner[name]) if name in owner else NOTHING

    @property
    def parent_number(self) -> int:
        above = self.trace.parents[self.place]
        number = -1 if above is None else self.trace.left[above]
        return number if self.trace.has_place(self.place) else 0


def _of_id(ident: bytes) -> Found:
    return text(ident.hex()) if any(ident) else NOTHING


INTRINSICS: dict[str, Callable[[At], Found]] = {
    "name": lambda at: text(at.span.name),
    "statusMessage": lambda at: text(at.span.message),
    "duration": lambda at: one(Type.DURATION, end_of(at.span) - at.span.start_ns),
    "status": lambda at: one(Type.STATUS, STATUSES[at.span.status]),
    "kind": lambda at: one(Type.KIND, KINDS[at.span.kind]),
    "span:id": lambda at: _of_id(at.span.span),
    "span:parentID": lambda at: _of_id(at.span.parent),
    "span:childCount": lambda at: one(Type.INTEGER, at.trace.parents.count(at.place)),
    "nestedSetLeft": lambda at: one(Type.INTEGER, at.trace.left[at.place]),
    "nestedSetRight": lambda at: one(Type.INTEGER, at.trace.right[at.place]),
    "nestedSetParent": lambda at: one(Type.INTEGER, at.parent_number),
    "traceDuration": lambda at: one(Type.DURATION, at.trace.end_ns - at.trace.start_ns),
    "rootName": lambda at: text(at.trace.root_text("name")),
    "rootServiceName": lambda at: text(at.trace.root_text("service")),
    "trace:id": lambda at: text(at.trace.ident.hex().lstrip("0")),
    "event:name": lambda at: united(text(each.name) for each in at.span.events),
    "event:timeSinceStart": lambda at: united(
        one(Type.DURATION, each.time_ns - at.span.start_ns) for each in at.span.events
    ),
    "link:spanID": lambda at: united(_of_id(each.span) for each in at.span.links),
    "link:traceID": lambda at: united(text(each.trace.hex().lstrip("0")) for each in at.span.links),
    "instrumentation:name": lambda at: text(at.span.library.name),
    "instrumentation:version": lambda at: text(at.span.library.version),
}


def holds(expr: FieldExpr, at: At) -> bool:
    """Tell whether a condition holds; what is no boolean does not."""
    match expr:
        case Comparison():
            return _compare(expr, at)
        case Logical(op=op, operands=operands):
            each = [holds(operand, at) for operand in operands]
            return all(each) if op is LogicalOp.AND else any(each)
        case Not(operand=Attribute() | Intrinsic() as asked):
            flags = [value for kind, value in at.field(asked).values if kind is Type.BOOLEAN]
            return bool(flags) and not any(flags)
        case Not(operand=operand):
            return not holds(operand, at)
    return (Type.BOOLEAN, True) in evaluate(expr, at).values


def evaluate(expr: FieldExpr, at: At) -> Found:
    match expr:
        case Attribute() | Intrinsic():
            return at.field(expr)
        case Literal(type=kind, value=value):
            return NOTHING if kind is Type.NIL else one(kind, value)
        case Negation(operand=operand):
            number = evaluate(operand, at).number()
            return NOTHING if number is None else one(number[0], wrapped(-number[1]))
        case Arithmetic(op=op, left=left, right=right):
            ours, theirs = evaluate(left, at).number(), evaluate(right, at).number()
            return NOTHING if ours is None or theirs is None else calculate(op.value, ours, theirs)
    return one(Type.BOOLEAN, holds(expr, at))


def _compare(expr: Comparison, at: At) -> bool:
    op, left, right = expr.op.value, expr.left, expr.right
    for this, other in ((left, right), (right, left)):
        if isinstance(this, Literal) and this.type is Type.NIL:
            return evaluate(other, at).is_there == (op == "!=")
    ours, theirs = evaluate(left, at), evaluate(right, at)
    if isinstance(left, Literal):
        ours = as_id(op, left, right)
    if isinstance(right, Literal):
        theirs = as_id(op, right, left)
    return any(meets(this, op, other) for this in ours.values for other in theirs.values)


def as_id(op: str, literal: Literal, other: FieldExpr) -> Found:
    """Ids of traces are compared without leading zeros, in lower case; patterns are what they are."""
    value = literal.value
    if (
        op not in {"=~", "!~"}
        and other in {Intrinsic("trace:id"), Intrinsic("link:traceID")}
        and isinstance(value, str)
    ):
        value = value.lower().lstrip("0")
    return one(literal.type, value)


def meets(this: Typed, op: str, other: Typed) -> bool:
    """Compare two values: those of unlike types never meet, numbers of all types do."""
    (kind, value), (other_kind, other_value) = this, other
    if op in {"=~", "!~"}:
        if kind is not Type.STRING:
            return False
        return (re.fullmatch(other_value, value, re.DOTALL) is not None) == (op == "=~")
    if kind is not other_kind and not (kind in NUMBERS and other_kind in NUMBERS):
        return False
    if kind is not other_kind and Type.FLOAT in {kind, other_kind}:
        value, other_value = float(value), float(other_value)
    return bool(COMPARISONS[op](value, other_value))


def wrapped(value: Any) -> Any:
    """Integers have 64 bits."""
    return (value + 2**63) % 2**64 - 2**63 if isinstance(value, int) else value


def calculate(op: str, left: Typed, right: Typed) -> Found:
    """Integers stay integers; durations and floats become floats."""
    if left[0] is Type.INTEGER and right[0] is Type.INTEGER:
        return _of_integers(op, left[1], right[1])
    return one(Type.FLOAT, _of_floats(op, float(left[1]), float(right[1])))


def _of_integers(op: str, left: int, right: int) -> Found:
    if op in "/%":
        if right == 0:
            return NOTHING
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return one(Type.INTEGER, wrapped(quotient if op == "/" else left - quotient * right))
    if op == "^":
        power = _of_floats(op, float(left), float(right))
        is_whole = right >= 0 and abs(power) < 2**62
        return one(Type.INTEGER, left**right) if is_whole else one(Type.FLOAT, power)
    plain = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op]
    return one(Type.INTEGER, wrapped(plain(left, right)))


def _of_floats(op: str, left: float, right: float) -> float:
    if op in "+-*":
        return float({"+": operator.add, "-": operator.sub, "*": operator.mul}[op](left, right))
    if op == "^":
        return _power(left, right)
    if op == "%":
        return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)
    if right == 0:
        sign = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if left == 0 or math.isnan(left) else math.inf * sign
    return left / right


def _power(left: float, right: float) -> float:
    is_odd = math.isfinite(right) and right == int(right) and int(right) % 2 == 1
    sign = -1.0 if is_odd and math.copysign(1, left) < 0 else 1.0
    try:
        return math.pow(left, right)
    except OverflowError:
        return math.inf * sign
    except ValueError:
        return math.inf * sign if left == 0 else math.nan
