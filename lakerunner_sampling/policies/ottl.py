"""OTTL conditions become SQL over the span relation.

    span.attributes["http.status_code"] >= 500 and not IsMatch(span.name, "^health")
    →  try_cast("span:http.status_code" AS DOUBLE) >= 500 AND NOT regexp_matches(name, '^health')

A documented subset (docs/reference/sampling-policies.md): paths, literals, comparisons, `and`, `or`, `not`,
`+ - * /` and pure functions. What lies outside is refused with its position. As in OTTL, a comparison of
values of different kinds, or with an absent one, is false, but for `!=`. Attributes are read as text: against
a number they are compared as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import duckdb

from lakerunner_sampling.shapes import KINDS, STATUS_CODES, Attribute, Scope, quoted, text

MAX_DEPTH = 50
MAX_LENGTH = 10_000


class OttlError(ValueError):
    """A condition cannot be used; `column` counts from 1."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


class Kind(StrEnum):
    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    ATTRIBUTE = "attribute"
    """Text whose kind is not known."""
    BYTES = "bytes"
    NIL = "nil"


@dataclass(frozen=True, slots=True)
class Value:
    sql: str
    kind: Kind
    column: int

    @property
    def is_number(self) -> bool:
        return self.kind in {Kind.INT, Kind.FLOAT}


@dataclass(frozen=True, slots=True)
class Compiled:
    """Condition in SQL, with what it reads of the relation."""

    sql: str
    columns: frozenset[str]
    attributes: tuple[Attribute, ...]


_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<bytes>0x[0-9a-fA-F]+)|(?P<number>[0-9]+(?:\.[0-9]+)?)
    |(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|\.|,|\+|-|\*|/))""",
    re.VERBOSE,
)
_PATHS: dict[str, tuple[str, Kind]] = {
    "name": ("name", Kind.TEXT),
    "kind": ("kind", Kind.INT),
    "kind.string": ("kind", Kind.TEXT),
    "kind.deprecated_string": ("kind", Kind.TEXT),
    "status.code": ("status_code", Kind.INT),
    "status.message": ("coalesce(status_message, '')", Kind.TEXT),
    "start_time_unix_nano": ("start_ns", Kind.INT),
    "end_time_unix_nano": ("end_ns", Kind.INT),
    "trace_state": ("coalesce(trace_state, '')", Kind.TEXT),
    "trace_id": ("trace_id", Kind.BYTES),
    "span_id": ("span_id", Kind.BYTES),
    "parent_span_id": ("parent_span_id", Kind.BYTES),
    "trace_id.string": ("lower(hex(trace_id))", Kind.TEXT),
    "span_id.string": ("lower(hex(span_id))", Kind.TEXT),
    "parent_span_id.string": ("coalesce(lower(hex(parent_span_id)), '')", Kind.TEXT),
    "flags": ("coalesce(flags, 0)", Kind.INT),
}
_COLUMNS = {
    "status.code": "status_code", "status.message": "status_message", "start_time_unix_nano": "start_ns",
    "end_time_unix_nano": "end_ns", "kind.string": "kind", "kind.deprecated_string": "kind",
    "trace_id.string": "trace_id", "span_id.string": "span_id", "parent_span_id.string": "parent_span_id",
}  # fmt: skip
_EVENT_PATHS = {"name": ("e.name", Kind.TEXT), "time_unix_nano": ("e.time_ns", Kind.INT)}
_ENUMS = {f"SPAN_KIND_{name.upper()}": number for number, name in enumerate(KINDS)} | {
    f"STATUS_CODE_{name.upper()}": number for number, name in enumerate(STATUS_CODES)
}
_COMPARISONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}


def compile_conditions(conditions: list[str], event: bool) -> Compiled:
    """Compile conditions of which any one suffices; those of events hold if they do for any event."""
    columns: set[str] = set()
    attributes: set[Attribute] = set()
    found = []
    for condition in conditions:
        reader = _Reader(condition, event)
        found.append(reader.condition())
        columns |= reader.columns
        attributes |= reader.attributes
    sql = " OR ".join(f"({each})" for each in found)
    if event:
        sql = f"coalesce(len(list_filter(events, lambda e: {sql})) > 0, false)"
        columns.add("events")
    return Compiled(sql, frozenset(columns), tuple(sorted(attributes)))


class _Reader:
    """Recursive descent over one condition."""

    def __init__(self, source: str, event: bool) -> None:
        if len(source) > MAX_LENGTH:
            raise OttlError(1, f"longer than {MAX_LENGTH} characters")
        self._event = event
        self._tokens = _tokens(source)
        self._at = 0
        self._depth = 0
        self.columns: set[str] = set()
        self.attributes: set[Attribute] = set()

    def condition(self) -> str:
        found = self._or()
        if self._peek()[0] != "end":
            raise OttlError(self._peek()[2], f"unexpected {self._peek()[1]!r}")
        return found

    def _peek(self, ahead: int = 0) -> tuple[str, str, int]:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _next(self) -> tuple[str, str, int]:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, value: str) -> bool:
        if self._peek()[0] in {"sign", "name"} and self._peek()[1] == value:
            self._at += 1
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._accept(value):
            raise OttlError(self._peek()[2], f"expected {value!r}, found {self._peek()[1] or 'the end'!r}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise OttlError(self._peek()[2], f"nested more than {MAX_DEPTH} levels deep")

    def _or(self) -> str:
        self._deeper()
        parts = [self._and()]
        while self._accept("or"):
            parts.append(self._and())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _and(self) -> str:
        parts = [self._not()]
        while self._accept("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _not(self) -> str:
        if self._accept("not"):
            self._deeper()
            found = f"(NOT {self._not()})"
            self._depth -= 1
            return found
        if self._peek()[1] == "(" and (grouped := self._grouped()) is not None:
            return grouped
        return self._comparison()

    def _grouped(self) -> str | None:
        """Read a condition in parentheses; None where they hold a value."""
        start, depth = self._at, self._depth
        self._at += 1
        try:
            found = self._or()
            self._expect(")")
        except _NoConditionError:
            self._at, self._depth = start, depth
            return None
        if self._peek()[1] in _COMPARISONS or self._peek()[1] in {"+", "-", "*", "/"}:
            self._at, self._depth = start, depth
            return None
        return f"({found})"

    def _comparison(self) -> str:
        left = self._sum()
        operator = self._peek()[1]
        if operator not in _COMPARISONS:
            if left.kind is not Kind.BOOL:
                raise _NoConditionError(left.column, "expected a comparison or true or false")
            return f"coalesce({left.sql}, false)"
        self._at += 1
        return compared(left, operator, self._sum())

    def _sum(self) -> Value:
        return self._arithmetic({"+", "-"}, lambda: self._arithmetic({"*", "/"}, self._operand))

    def _arithmetic(self, signs: set[str], operand: Callable[[], Value]) -> Value:
        left = operand()
        while self._peek()[0] == "sign" and self._peek()[1] in signs:
            sign = self._next()[1]
            right = operand()
            for value in (left, right):
                if not value.is_number:
                    raise OttlError(value.column, "arithmetic needs numbers; convert with Int() or Double()")
            both_int = left.kind is Kind.INT and right.kind is Kind.INT
            symbol = "//" if sign == "/" and both_int else sign
            left = Value(
                f"({left.sql} {symbol} {right.sql})", Kind.INT if both_int else Kind.FLOAT, left.column
            )
        return left

    def _operand(self) -> Value:
        kind, value, column = self._next()
        if kind == "text":
            return Value(text(_unquoted(value)), Kind.TEXT, column)
        if kind == "bytes":
            return Value(f"unhex('{value[2:].zfill(len(value[2:]) + len(value) % 2)}')", Kind.BYTES, column)
        if kind == "number" or (value == "-" and self._peek()[0] == "number"):
            number = value if kind == "number" else f"-{self._next()[1]}"
            whole = "." not in number
            return Value(f"{number}::{'HUGEINT' if whole else 'DOUBLE'}",
                         Kind.INT if whole else Kind.FLOAT, column)  # fmt: skip
        if value == "(":
            self._deeper()
            found = self._sum()
            self._expect(")")
            self._depth -= 1
            return found
        if kind == "name":
            return self._named(value, column)
        raise OttlError(column, f"expected a value, found {value or 'the end'!r}")

    def _named(self, name: str, column: int) -> Value:
        if name in {"true", "false"}:
            return Value(name, Kind.BOOL, column)
        if name == "nil":
            return Value("NULL", Kind.NIL, column)
        if name in _ENUMS:
            return Value(f"{_ENUMS[name]}::HUGEINT", Kind.INT, column)
        if name[0].isupper():
            return self._function(name, column)
        return self._path(name, column)

    def _path(self, first: str, column: int) -> Value:
        """Read `span.attributes["x"]`, `resource.attributes["x"]`, `name`, `spanevent.name` and the like."""
        names = [first]
        while self._accept("."):
            kind, name, at = self._next()
            if kind != "name":
                raise OttlError(at, f"expected a name after the dot, found {name!r}")
            names.append(name)
        contexts = {"span", "resource", "instrumentation_scope", "scope", "spanevent"}
        default = "spanevent" if self._event else "span"
        context = names.pop(0) if names[0] in contexts and len(names) > 1 else default
        path = ".".join(names)
        if context == "spanevent" and not self._event:
            raise OttlError(column, "spanevent paths belong into conditions under `spanevent`")
        if path == "attributes":
            return self._attribute(context, column)
        if context in {"scope", "instrumentation_scope"} and path in {"name", "version"}:
            self.columns.add(f"scope_{path}")
            return Value(f"coalesce(scope_{path}, '')", Kind.TEXT, column)
        if context == "spanevent" and path in _EVENT_PATHS:
            return Value(*_EVENT_PATHS[path], column)
        if context == "span" and path in _PATHS:
            return self._span_path(path, column)
        raise OttlError(column, f"path {context}.{path} is not supported")

    def _span_path(self, path: str, column: int) -> Value:
        sql, kind = _PATHS[path]
        self.columns.add(_COLUMNS.get(path, path))
        if path in {"kind.string", "kind.deprecated_string"}:
            names = [f"SPAN_KIND_{each.upper()}" if "deprecated" in path else each.title() for each in KINDS]
            sql = f"{names}[kind + 1]"
        if path in _BYTES:
            sql = f"coalesce({sql}, unhex('{'00' * _BYTES[path]}'))"
        return Value(f"{sql}::HUGEINT" if kind is Kind.INT else sql, kind, column)

    def _attribute(self, context: str, column: int) -> Value:
        self._expect("[")
        kind, key, at = self._next()
        if kind != "text":
            raise OttlError(at, "expected the attribute's key in double quotes")
        self._expect("]")
        if self._peek()[1] == "[":
            raise OttlError(self._peek()[2], "parts of an attribute are not supported")
        if context == "spanevent":
            return Value(f"e.attributes[{text(_unquoted(key))}]", Kind.ATTRIBUTE, column)
        scope = {"span": Scope.SPAN, "resource": Scope.RESOURCE}.get(context, Scope.SCOPE)
        attribute = Attribute(scope, _unquoted(key))
        self.attributes.add(attribute)
        return Value(quoted(attribute.column), Kind.ATTRIBUTE, column)

    def _function(self, name: str, column: int) -> Value:
        if name not in _FUNCTIONS:
            raise OttlError(
                column, f"function {name} is not supported; known: {', '.join(sorted(_FUNCTIONS))}"
            )
        count, make = _FUNCTIONS[name]
        self._expect("(")
        given: list[Value] = []
        self._deeper()
        while not self._accept(")"):
            if given:
                self._expect(",")
            given.append(self._sum())
        self._depth -= 1
        if len(given) != count:
            raise OttlError(column, f"{name} takes {count} arguments, not {len(given)}")
        if name == "IsRootSpan":
            self.columns.add("parent_span_id")
        return make(given, column)


class _NoConditionError(OttlError):
    """A value stands where a condition is expected."""


def compared(left: Value, operator: str, right: Value) -> str:
    """Compare two values by OTTL's rules."""
    if left.kind is Kind.NIL or right.kind is Kind.NIL:
        other = left if right.kind is Kind.NIL else right
        if operator not in {"==", "!="}:
            return "false"
        both = left.kind is right.kind
        is_nil = "true" if both else f"({other.sql} IS NULL)"
        return is_nil if operator == "==" else f"(NOT {is_nil})"
    if operator == "!=":
        return f"(NOT {compared(left, '==', right)})"
    sides = _alike(left, right)
    if sides is None:
        return "false"
    return f"coalesce({sides[0]} {_COMPARISONS[operator]} {sides[1]}, false)"


def _alike(left: Value, right: Value) -> tuple[str, str] | None:
    """Bring both sides to one kind; None if theirs never compare."""
    kinds = {left.kind, right.kind}
    if kinds <= {Kind.INT, Kind.FLOAT} or len(kinds) == 1:
        return left.sql, right.sql
    if kinds == {Kind.TEXT, Kind.ATTRIBUTE}:
        return left.sql, right.sql
    if Kind.ATTRIBUTE not in kinds or Kind.BYTES in kinds:
        return None
    sides = []
    for value in (left, right):
        if value.kind is not Kind.ATTRIBUTE:
            sides.append(value.sql)
        elif Kind.BOOL in kinds:
            sides.append(f"(CASE {value.sql} WHEN 'true' THEN true WHEN 'false' THEN false END)")
        else:
            sides.append(f"try_cast({value.sql} AS DOUBLE)")
    return sides[0], sides[1]


def _is_match(given: list[Value], column: int) -> Value:
    target, pattern = given
    if pattern.kind is not Kind.TEXT or not pattern.sql.startswith("'"):
        raise OttlError(pattern.column, "IsMatch takes its pattern as a text in double quotes")
    check_pattern(pattern.sql[1:-1].replace("''", "'"), pattern.column)
    return Value(f"regexp_matches(CAST({target.sql} AS VARCHAR), {pattern.sql})", Kind.BOOL, column)


def check_pattern(pattern: str, column: int) -> None:
    """Raise unless RE2 reads the pattern, which it then matches in linear time."""
    try:
        duckdb.execute("SELECT regexp_matches('', ?)", [pattern]).fetchall()
    except duckdb.Error as error:
        reason = str(error).splitlines()[0].removeprefix("Invalid Input Error: ")
        raise OttlError(column, f"invalid regular expression {pattern!r}: {reason}") from error


def _textual(template: str, result: Kind, *kinds: Kind) -> Callable[[list[Value], int], Value]:
    def make(given: list[Value], column: int) -> Value:
        for value, kind in zip(given, kinds, strict=False):
            if kind is Kind.TEXT and value.kind not in {Kind.TEXT, Kind.ATTRIBUTE}:
                raise OttlError(value.column, "expected a text")
        return Value(template.format(*(value.sql for value in given)), result, column)

    return make


_T = Kind.TEXT
_FUNCTIONS: dict[str, tuple[int, Callable[[list[Value], int], Value]]] = {
    "IsMatch": (2, _is_match),
    "IsRootSpan": (0, _textual("(parent_span_id IS NULL)", Kind.BOOL)),
    "HasPrefix": (2, _textual("starts_with({0}, {1})", Kind.BOOL, _T, _T)),
    "HasSuffix": (2, _textual("suffix({0}, {1})", Kind.BOOL, _T, _T)),
    "Len": (1, _textual("strlen({0})::HUGEINT", Kind.INT, _T)),
    "Int": (1, _textual("trunc(try_cast({0} AS DOUBLE))::HUGEINT", Kind.INT)),
    "Double": (1, _textual("try_cast({0} AS DOUBLE)", Kind.FLOAT)),
    "String": (1, _textual("CAST({0} AS VARCHAR)", Kind.TEXT)),
    "ToLowerCase": (1, _textual("lower({0})", Kind.TEXT, _T)),
    "ToUpperCase": (1, _textual("upper({0})", Kind.TEXT, _T)),
}
"""Functions by name: number of arguments, and their SQL."""


def _tokens(source: str) -> list[tuple[str, str, int]]:
    found, at = [], 0
    while source[at:].strip():
        match = _TOKEN.match(source, at)
        if match is None or match.lastgroup is None:
            at += len(source[at:]) - len(source[at:].lstrip())
            raise OttlError(at + 1, f"unexpected {source[at]!r}")
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        at = match.end()
    return [*found, ("end", "", len(source) + 1)]


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _unquoted(literal: str) -> str:
    return re.sub(
        r"\\(.)", lambda each: {"n": "\n", "t": "\t", "r": "\r"}.get(each[1], each[1]), literal[1:-1]
    )
