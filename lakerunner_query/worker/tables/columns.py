"""Each logical column is an SQL expression over the columns of one segment.

    severity          r."log_level"
    service_name      s."l0"                     of the stream or series that the row belongs to
    attr_http_route   r."attr_http_route"        as it is stored in this segment, else NULL::VARCHAR

Equal expressions mean that segments can be scanned by one `read_parquet`. `r` are the rows of files, `s`
their label sets. Names are quoted, texts are literals with doubled quotes, numbers are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa

from lakerunner_query.lakeql.tables import (
    BIGINT,
    BLOB,
    DOUBLE,
    INTEGER,
    TEXT,
    TEXTS,
    TIME,
    LakeTable,
    TableColumn,
)
from lakerunner_query.worker.tables.segments import PREFIXES, UNSAFE, TableFile, TimeBounds
from resources.lake import rollup_columns as rollups
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_FINGERPRINT,
    CHQ_HIST_COUNT,
    CHQ_HIST_COUNT_FLOAT,
    CHQ_HIST_SUM,
    CHQ_METRIC_TYPE,
    CHQ_TID,
    CHQ_TSNS,
)
from resources.lake.layout import Signal
from resources.lake.metric_values import BASE, EXPONENT, SCALED
from resources.lake.metric_values import DOUBLE as STORED_DOUBLE
from resources.lake.rollup_columns import SCALED as SCALED_OF
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn
from resources.lake.series import NAME_LABEL

BOOLEAN = "BOOLEAN"
QUANTILES = (0.5, 0.95, 0.99)
QUANTILE_FUNCTION = "lake_quantiles"
"""Function that the worker adds to DuckDB."""
STALE = f"'{0x7FF0_0000_0000_0002:064b}'::BIT"
_PLAIN = {
    Signal.LOGS: {
        "tsns": CHQ_TSNS, "severity": "log_level", "level": "log_level", "detected_level": "detected_level",
        "severity_number": "log_severity_number", "message": "log_message", "fingerprint": CHQ_FINGERPRINT,
        "event_name": "event_name",
    },
    Signal.TRACES: {
        "tsns": "span_start_ns", "end_tsns": "span_end_ns", "duration_ns": "span_duration_ns",
        "service_name": "service_name", "name": "span_name", "kind": "span_kind",
        "status_code": "span_status_code", "status_message": "span_status_message",
        "trace_state": "span_trace_state",
    },
    Signal.METRICS: {
        "metric_name": "metric_name", "metric_type": CHQ_METRIC_TYPE, "temporality": "metric_temporality",
        "tid": CHQ_TID,
    },
}  # fmt: skip
"""Fixed columns that are stored as they are."""
_COUNTED = ("metric_name", "label", "estimate", "sketch")
"""The same, of tables whose rows have no labels."""
IDS = {
    Signal.LOGS: {"trace_id": ("trace_id", 16), "span_id": ("span_id", 8)},
    Signal.TRACES: {
        "trace_id": ("span_trace_id", 16), "span_id": ("span_id", 8),
        "parent_span_id": ("span_parent_span_id", 8),
    },
    Signal.METRICS: {},
}  # fmt: skip
"""Columns of hexadecimal text, with the stored ones and their bytes."""


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def label_of(table: LakeTable, name: str) -> str | None:
    """Return the label that a column shows, empty for all labels; None for columns that rows have."""
    folded = name.lower()
    if not table.has_labels:
        return None
    if folded == "labels":
        return ""
    if any(one.name == folded for one in table.columns):
        if table.signal is not Signal.TRACES and folded == "service_name":
            return folded
        return NAME_LABEL if table.signal is Signal.METRICS and folded == "metric_name" else None
    return None if folded.startswith(tuple(PREFIXES.values())) else folded


def sql_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type; empty for types that are never shown as they are."""
    names = {
        pa.string(): TEXT, pa.int64(): BIGINT, pa.int32(): INTEGER, pa.float64(): DOUBLE, pa.bool_(): BOOLEAN,
        pa.binary(): BLOB,
    }  # fmt: skip
    return names.get(kind, "")


@dataclass(slots=True)
class RowShape:
    """Expressions of one segment for the columns of a unit, and what they read."""

    table: LakeTable
    org: str
    footer: TableFile
    times: TimeBounds
    has_old: bool
    """The segment may have rows before 1970."""
    stored: set[str] = field(default_factory=set)
    """Stored columns that the expressions read."""
    labels: dict[str, str] = field(default_factory=dict)
    """Columns of the label relation by label; the empty label stands for the map of all."""

    def expression(self, column: TableColumn) -> str:
        """Return SQL of the column's type; a column that the segment does not have is NULL."""
        fixed = _fixed_of(self.table).get(column.name)
        text, kind = self._flat(column) if fixed is None else fixed(self)
        if not text:
            return f"CAST(NULL AS {column.type})"
        return text if kind == column.type else f"CAST({text} AS {column.type})"

    def read(self, name: str, default: str = "NULL") -> str:
        """Return SQL of a stored column, the default where the segment has none."""
        if name not in self.footer.types:
            return default
        self.stored.add(name)
        return f"r.{identifier(name)}"

    def label(self, name: str) -> str:
        column = self.labels.setdefault(name, f"l{len(self.labels)}")
        return f"s.{column}"

    def plain(self, name: str) -> tuple[str, str]:
        found = self.read(name, "")
        return (found, sql_type(self.footer.types[name])) if found else ("", "")

    def time(self) -> str:
        time = self.read(self.times.column)
        if self.times.is_ms:
            return f"make_timestamp({time} * 1000)"
        if self.has_old:  # integer division rounds towards zero
            return f"make_timestamp(({time} - CASE WHEN {time} < 0 THEN 999 ELSE 0 END) // 1000)"
        return f"make_timestamp({time} // 1000)"

    def hex(self, name: str, width: int) -> str:
        """Return SQL for the hexadecimal form; an id of zeros only stands for none."""
        stored = self.read(name, "")
        return f"nullif(lower(hex({stored})), '{'0' * (2 * width)}')" if stored else ""

    def _flat(self, column: TableColumn) -> tuple[str, str]:
        """Return SQL of an attribute, else of a label."""
        name = column.name.lower()
        scope = next((scope for scope, prefix in PREFIXES.items() if name.startswith(prefix)), "")
        if scope:
            return self._attribute(scope, name, column.type), column.type
        return self.label(name), TEXT

    def _attribute(self, scope: str, name: str, kind: str) -> str:
        """Return SQL for an attribute: as stored where that is the type, else by its text."""
        parts = [
            self.read(one.column) if sql_type(self.footer.types[one.column]) == kind
            else _cast(self._text(one), kind)
            for one in self.footer.by_name.get(name, ())
        ]  # fmt: skip
        overflow = self.read(OVERFLOW_COLUMNS[scope], "")
        if overflow:
            folded = f"regexp_replace(lower(e.key), '{UNSAFE}', '_', 'g')"
            same = f"lambda e: {folded} = {literal(name.removeprefix(PREFIXES[scope]))}"
            parts.append(_cast(f"list_filter(map_entries({overflow}), {same})[1].value", kind))
        return _first(parts) if parts else ""

    def _text(self, column: MappedColumn) -> str:
        """Return SQL for OpenTelemetry's text of a value."""
        kind, value = self.footer.types[column.column], self.read(column.column)
        if pa.types.is_string(kind):
            return value
        if pa.types.is_floating(kind):
            special = f"WHEN isnan({value}) THEN 'NaN' WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity'"
            return (
                f"CASE WHEN {value} IS NULL THEN NULL WHEN isfinite({value}) "
                f"THEN CAST({value} AS VARCHAR) {special} END"
            )
        return f"CAST({value} AS VARCHAR)"

    def map(self, scope: str) -> str:
        """Return SQL for all attributes of a scope by original key, those that are NULL left out."""
        by_key: dict[str, list[str]] = {}
        for one in self.footer.attributes:
            if one.scope == scope:
                by_key.setdefault(one.key, []).append(self._text(one))
        own = "CAST(MAP {} AS MAP(VARCHAR, VARCHAR))"
        if by_key:
            entries = [f"{{'k': {literal(key)}, 'v': {_first(by_key[key])}}}" for key in sorted(by_key)]
            own = f"map_from_entries(list_filter([{', '.join(entries)}], lambda e: e.v IS NOT NULL))"
        overflow = self.read(OVERFLOW_COLUMNS[scope], "")
        return f"map_concat({overflow}, {own})" if overflow else own


def _first(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"


def _cast(text: str, kind: str) -> str:
    return text if kind == TEXT else f"CAST({text} AS {kind})"


Made = Callable[[RowShape], tuple[str, str]]
"""Function that returns SQL and type of a column."""


def _value(row: RowShape) -> tuple[str, str]:
    """Decode the value; a stale marker is none."""
    scaled = f"({row.read(SCALED)} + {row.read(BASE)}) / pow(10, {row.read(EXPONENT)})"
    stored = row.read(STORED_DOUBLE)
    plain = f"CASE WHEN isnan({stored}) AND CAST({stored} AS BIT) = {STALE} THEN NULL ELSE {stored} END"
    return f"coalesce({plain}, {scaled})", DOUBLE


def _count(row: RowShape) -> tuple[str, str]:
    parts = [row.read(CHQ_HIST_COUNT), f"CAST({row.read(CHQ_HIST_COUNT_FLOAT)} AS BIGINT)"]
    return f"coalesce({', '.join(parts)})", BIGINT


def _sum(row: RowShape) -> tuple[str, str]:
    return row.read(CHQ_HIST_SUM, "CAST(NULL AS DOUBLE)"), DOUBLE


def _exemplar(row: RowShape) -> tuple[str, str]:
    stored = row.read(CHQ_EXEMPLARS, "")
    if not stored:
        return "", ""
    with_trace = f"list_filter({stored}, lambda e: e.trace_id IS NOT NULL)"
    newest = (
        f"list_reverse_sort(list_transform({with_trace}, lambda e: {{'t': e.tsns, 'i': e.trace_id}}))[1].i"
    )
    return f"nullif(lower(hex({newest})), '{'0' * 32}')", TEXT


_SAMPLED: Mapping[str, Made] = {
    "value": _value, "count": _count, "sum": _sum, "exemplar_trace": _exemplar,
}  # fmt: skip


def _number(row: RowShape, name: str) -> str:
    stored = row.read(name, "")
    return f"coalesce({stored}, 0)" if stored else "0"


def _last_integer(row: RowShape) -> str:
    return f"({_number(row, SCALED_OF[rollups.LAST])} + {_number(row, rollups.BASE)})"


def _first_integer(row: RowShape) -> str:
    return f"({_last_integer(row)} + {_number(row, SCALED_OF[rollups.FIRST])})"


def _reference(row: RowShape, name: str) -> str:
    """Return SQL for what the integers of a column are counted from (`rollup_columns.counted_from`)."""
    if name in {rollups.FIRST, rollups.MIN}:
        return _last_integer(row) if name == rollups.FIRST else _first_integer(row)
    if name != rollups.SUM:
        return _last_integer(row)
    ends = f"({_first_integer(row)} + {_last_integer(row)})::HUGEINT"
    return f"({_wrapped(f'{ends} * {_number(row, rollups.COUNT)}')} >> 1)::HUGEINT"


def _wrapped(number: str) -> str:
    """Return SQL for a number of more than 64 bits as 64 bits hold it."""
    bits = f"(({number}) & 18446744073709551615::HUGEINT)"
    wrapped = f"CASE WHEN {bits} >= 9223372036854775808 THEN {bits} - 18446744073709551616 ELSE {bits} END"
    return f"CAST({wrapped} AS BIGINT)"


def rolled(row: RowShape, name: str) -> str:
    """Return SQL for a value of a rollup, decoded and filled as `rollup_columns.filled` does."""
    power, parts = f"pow(10, {_number(row, rollups.EXPONENT)})", []
    scaled = row.read(SCALED_OF[name], "")
    if scaled and name == rollups.LAST:
        parts.append(f"CASE WHEN {scaled} IS NOT NULL THEN {_last_integer(row)} / {power} END")
    elif scaled:
        number = f"{scaled} + {_reference(row, name)}"
        parts.append(f"({_wrapped(number) if name == rollups.SUM else number}) / {power}")
    stored = row.read(name, "")
    if stored:
        parts.append(stored)
    if name in rollups.BY_LAST:
        parts.append(rolled(row, rollups.LAST))
    return f"coalesce({', '.join(parts)})" if parts else "CAST(NULL AS DOUBLE)"


def _rolled(name: str) -> Made:
    return lambda row: (rolled(row, name), DOUBLE)


def _mean(row: RowShape) -> tuple[str, str]:
    return f"{rolled(row, rollups.SUM)} / nullif({row.read(rollups.COUNT)}, 0)", DOUBLE


def _quantile(place: int) -> Made:
    def made(row: RowShape) -> tuple[str, str]:
        values = [rolled(row, name) for name in (rollups.FIRST, rollups.PREV, rollups.LAST, rollups.SUM)]
        rest = f"coalesce({row.read(rollups.SUM_C)}, 0.0)"
        given = [
            row.read(rollups.COUNT), *values, rest, _number(row, rollups.CHANGES),
            row.read(rollups.SKETCH, "CAST(NULL AS BLOB)"),
        ]  # fmt: skip
        return f"{QUANTILE_FUNCTION}({', '.join(given)})[{place}]", DOUBLE

    return made


_ROLLED: Mapping[str, Made] = {
    "count": lambda row: (row.read(rollups.COUNT), BIGINT),
    "sum": _rolled(rollups.SUM),
    "min": _rolled(rollups.MIN),
    "max": _rolled(rollups.MAX),
    "avg": _mean,
    "first": _rolled(rollups.FIRST),
    "last": _rolled(rollups.LAST),
    "p50": _quantile(1),
    "p95": _quantile(2),
    "p99": _quantile(3),
}
_COMMON: Mapping[str, Made] = {
    "timestamp": lambda row: (row.time(), TIME),
    "organization_id": lambda row: (literal(row.org), TEXT),
    "service_name": lambda row: (row.label("service_name"), TEXT),
    "labels": lambda row: (row.label(""), TEXTS),
    "attributes": lambda row: (row.map("record"), TEXTS),
    "resource_attrs": lambda row: (row.map("resource"), TEXTS),
}


def _plain(name: str) -> Made:
    return lambda row: row.plain(name)


_WITHOUT_LABELS = {name: _COMMON[name] for name in ("timestamp", "organization_id")} | {
    name: _plain(name) for name in _COUNTED
}


def _fixed_of(table: LakeTable) -> Mapping[str, Made]:
    return _fixed(table.signal, bool(table.frequency_ms)) if table.has_labels else _WITHOUT_LABELS


@cache
def _fixed(signal: Signal, is_rolled: bool) -> Mapping[str, Made]:
    """Return how each fixed column is made."""

    def text(name: str, width: int) -> Made:
        return lambda row: (row.hex(name, width), TEXT)

    found = dict(_COMMON)
    if signal is Signal.METRICS:
        labels = {"service_name", "attributes", "resource_attrs"}
        found = {name: made for name, made in _COMMON.items() if name not in labels}
        found |= _ROLLED if is_rolled else _SAMPLED
    found |= {name: _plain(stored) for name, stored in _PLAIN[signal].items()}
    return found | {name: text(*stored) for name, stored in IDS[signal].items()}
