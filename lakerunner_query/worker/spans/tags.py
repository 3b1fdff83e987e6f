"""`SpanTagReader` lists names of attributes, and the values of a field.

Without a condition footers alone tell names of attributes; events and links are read for theirs.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.protocol.traces import SpanTagsAnswer, TypedValue
from lakerunner_query.protocol.units import SpanTagsUnit
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import Attribute, Field, Scope, Type
from lakerunner_query.traceql.lang.conditions import analyse
from lakerunner_query.traceql.lang.parser import parse_cached, parse_field
from lakerunner_query.traceql.spansets import evaluate_pipeline
from lakerunner_query.traceql.values import Column, united
from lakerunner_query.worker.spans.rows import EVENTS, LINKS, SpanReader, TraceRange, Wanted
from lakerunner_query.worker.spans.search import fields_of
from lakerunner_query.worker.tables.segments import TableOpener
from resources.arrays import Int64s
from resources.duckdb import Cancellation

UNSCOPED = (Scope.SPAN, Scope.RESOURCE, Scope.INSTRUMENTATION)
"""Scopes of an attribute that is named without one, where values are listed."""
NESTED = {Scope.EVENT: EVENTS, Scope.LINK: LINKS}


class SpanTagReader:
    """Answers units for names and values of fields."""

    def __init__(self, opener: TableOpener) -> None:
        self._opener = opener

    def run(self, unit: SpanTagsUnit, cancellation: Cancellation) -> SpanTagsAnswer:
        with self._opener.open_unit(cancellation) as reader:
            spans = SpanReader(reader)
            fields = list(fields_of(parse_cached(unit.condition))) if unit.condition else []
            if unit.tag:
                field = parse_field(unit.tag)
                frame = spans.read(unit.segments, Wanted.of([*fields, *_scoped(field)]), TraceRange())
                column = _column(frame, unit).within(_matching(frame, unit))
                values, truncated = _values(column, unit.limit)
                return SpanTagsAnswer({}, values, truncated, reader.reader.report())
            wanted = spans.all_attributes(unit.segments, Wanted.of(fields))
            names: dict[str, set[str]] = {}
            for scope, stored in NESTED.items():
                for key in spans.nested_keys(unit.segments, stored):
                    names.setdefault(scope.value, set()).add(key)
            if unit.condition:
                nested = tuple((Scope(scope), key) for scope, keys in names.items() for key in keys)
                wanted = Wanted((*wanted.attributes, *nested), wanted.plain)
                frame = spans.read(unit.segments, wanted, TraceRange())
                names = _present(frame, _matching(frame, unit))
            else:
                for scope, key in wanted.attributes:
                    names.setdefault(scope.value, set()).add(key)
            found = {scope: tuple(sorted(keys)) for scope, keys in names.items()}
            return SpanTagsAnswer(found, (), False, reader.reader.report())


def _matching(frame: Frame, unit: SpanTagsUnit) -> Int64s:
    """Return the spans that count: those of traces that overlap the range, and meet the condition."""
    inside = (frame.trace_start_ns <= unit.end_ns) & (frame.trace_end_ns >= unit.start_ns)
    rows = np.arange(frame.size)
    if unit.condition:
        rows = np.sort(evaluate_pipeline(frame, analyse(parse_cached(unit.condition)).pipelines[0]).rows)
    return rows[inside[frame.trace_of[rows]]] if len(rows) else rows


def _column(frame: Frame, unit: SpanTagsUnit) -> Column:
    """Return the values of the field; of one without a scope those of all its `UNSCOPED`."""
    field = parse_field(unit.tag)
    if isinstance(field, Attribute) and field.scope is Scope.NONE:
        return united((frame.attributes[(scope, field.name)] for scope in UNSCOPED), frame.size)
    return frame.column(field)


def _scoped(field: Field) -> list[Field]:
    """Return the fields of which a field has its values."""
    if isinstance(field, Attribute) and field.scope is Scope.NONE:
        return [Attribute(field.name, scope) for scope in UNSCOPED]
    return [field]


def _values(column: Column, limit: int) -> tuple[tuple[TypedValue, ...], bool]:
    found: dict[TypedValue, None] = {}
    for part in column.parts:
        if part.kind is Type.ATTRIBUTE:
            continue
        distinct = np.unique(part.values).tolist()
        for value in distinct:
            found[TypedValue(part.kind.value, part.texts[value] if part.has_texts else value)] = None
    values = tuple(found)
    return (values[:limit], True) if 0 < limit < len(values) else (values, False)


def _present(frame: Frame, rows: Int64s) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for (scope, key), column in frame.attributes.items():
        if column.within(rows).parts:
            names.setdefault(scope.value, set()).add(key)
    return names
