"""`Frame` holds spans of whole traces as columns; evaluation reads nothing else.

    row   trace   span_id   start_ns ...    attributes[span.http.method]   attributes[resource.service.name]
    0     0       a1        ...             GET                            web
    1     0       b2        ...             -                              cart
    2     1       c3        ...             POST                           web

Rows of a trace stand together, in the order in which they were sent, and each span once. Columns beyond ids
and times are there only if the query reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.traceql.lang.ast import Attribute, Field, Intrinsic, Scope, Type
from lakerunner_query.traceql.tree import Tree, build_tree
from lakerunner_query.traceql.values import SPAN_KINDS, STATUSES, Column, dense, first_of
from resources.arrays import Bytes, Flags, Int8s, Int64s, UInt64s

NO_ROOT = "<root span not yet received>"
SERVICE, NAME = Attribute("service.name", Scope.RESOURCE), Intrinsic("name")
ID_BYTES, TRACE_ID_BYTES = 8, 16


@dataclass(frozen=True)
class Frame:
    """Spans of whole traces."""

    starts: Int64s
    """First rows of the traces, and the number of rows."""
    trace_ids: Bytes
    """16 bytes for each trace, one line each."""
    span_ids: UInt64s
    parent_ids: UInt64s
    """Ids as numbers, big-endian; 0: none."""
    start_ns: Int64s
    end_ns: Int64s
    """The start where no end was sent."""
    kinds: Int8s
    """Numbers of OTLP."""
    statuses: Int8s
    """Places in `STATUSES`."""
    attributes: Mapping[tuple[Scope, str], Column]
    """Columns by scope and key; all that the query reads are there, empty ones too."""
    plain: Mapping[str, Column]
    """Other fields of spans, by the name of the intrinsic: `name`, `statusMessage`, `event:name`, ..."""

    @property
    def size(self) -> int:
        return len(self.span_ids)

    @property
    def traces(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def trace_of(self) -> Int64s:
        """Traces by row."""
        return np.repeat(np.arange(self.traces), np.diff(self.starts))

    @cached_property
    def is_root(self) -> Flags:
        found: Flags = self.parent_ids == 0
        return found

    @cached_property
    def tree(self) -> Tree:
        return build_tree(self.starts, self.span_ids, self.parent_ids, self.is_root, self.kinds)

    @cached_property
    def trace_start_ns(self) -> Int64s:
        found: Int64s = np.minimum.reduceat(self.start_ns, self.starts[:-1]) if self.size else self.start_ns
        return found

    @cached_property
    def trace_end_ns(self) -> Int64s:
        found: Int64s = np.maximum.reduceat(self.end_ns, self.starts[:-1]) if self.size else self.end_ns
        return found

    @cached_property
    def root_rows(self) -> Int64s:
        """Rows of the last root of each trace; -1: it has none."""
        found = np.full(self.traces, -1, np.int64)
        rows = np.flatnonzero(self.is_root)
        found[self.trace_of[rows]] = rows
        return found

    def column(self, field: Field) -> Column:
        """Return the values of an attribute or an intrinsic."""
        if isinstance(field, Intrinsic):
            return self._intrinsic(field.name)
        if field.scope is Scope.NONE:
            both = (self.attributes[(scope, field.name)] for scope in (Scope.SPAN, Scope.RESOURCE))
            return first_of(both, self.size)
        return self.attributes[(field.scope, field.name)]

    def root_texts(self, field: Field) -> list[str]:
        """Return the text that the root of each trace has in a field; empty without one."""
        texts = [""] * self.traces
        with_root = np.flatnonzero(self.root_rows >= 0)
        for part in self.column(field).within(self.root_rows[with_root]).parts:
            for place, value in zip(part.rows.tolist(), part.scalars(), strict=True):
                texts[int(with_root[place])] = str(value)
        return texts

    def _intrinsic(self, name: str) -> Column:
        known = _COMPUTED.get(name)
        if known is not None:
            return known(self)
        column = self.plain.get(name)
        if column is None:
            raise EvaluationError(f"{name} cannot be read")
        return column


def root_column(frame: Frame, field: Field) -> Column:
    """Return the text that the root of each span's trace has in a field."""
    distinct, codes = np.unique(np.array(frame.root_texts(field), dtype=object), return_inverse=True)
    return dense(Type.STRING, codes[frame.trace_of], texts=tuple(distinct))


def id_column(ids: UInt64s) -> Column:
    """Return ids in hexadecimal; zero is none."""
    return _texts_of([f"{one:016x}" for one in ids.tolist()], ids != 0)


def _texts_of(texts: list[str], valid: Flags | None = None) -> Column:
    distinct, codes = np.unique(np.array(texts, dtype=object), return_inverse=True)
    return dense(Type.STRING, codes, valid, texts=tuple(distinct))


def _trace_ids(frame: Frame) -> Column:
    texts = [row.tobytes().hex().lstrip("0") for row in frame.trace_ids]
    return dense(Type.STRING, frame.trace_of, texts=tuple(texts))


_COMPUTED: dict[str, Callable[[Frame], Column]] = {
    "duration": lambda frame: dense(Type.DURATION, frame.end_ns - frame.start_ns),
    "traceDuration": lambda frame: dense(
        Type.DURATION, (frame.trace_end_ns - frame.trace_start_ns)[frame.trace_of]
    ),
    "kind": lambda frame: dense(Type.KIND, frame.kinds, texts=SPAN_KINDS),
    "status": lambda frame: dense(Type.STATUS, frame.statuses, texts=STATUSES),
    "rootName": lambda frame: root_column(frame, NAME),
    "rootServiceName": lambda frame: root_column(frame, SERVICE),
    "trace:id": _trace_ids,
    "span:id": lambda frame: id_column(frame.span_ids),
    "span:parentID": lambda frame: id_column(frame.parent_ids),
    "nestedSetLeft": lambda frame: dense(Type.INTEGER, frame.tree.left),
    "nestedSetRight": lambda frame: dense(Type.INTEGER, frame.tree.right),
    "nestedSetParent": lambda frame: dense(Type.INTEGER, frame.tree.parent_numbers()),
    "span:childCount": lambda frame: dense(Type.INTEGER, frame.tree.child_counts()),
}
