"""A table shape reads its files as the canonical span relation, in DuckDB SQL.

    files of any shape  →  SELECT … AS trace_id, … AS start_ns, …, … AS "span:http.route"

`Wanted` names the columns that a query needs, so that the SQL names no others. An attribute that is asked for
by key becomes a column of text, null where it is absent; where the table has a column of its own for the key,
that is read, which costs an eighth of a look into the map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.spec import AbstractFileSystem


class ShapeError(ValueError):
    """The table lacks a column that its shape must have."""


class Scope(StrEnum):
    SPAN = "span"
    RESOURCE = "resource"
    SCOPE = "scope"


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """An attribute of spans, of their resource or of their scope, by its original key."""

    scope: Scope
    key: str

    @property
    def column(self) -> str:
        """Name of its column in the relation."""
        return f"{self.scope.value}:{self.key}"


_EVENTS = "STRUCT(time_ns BIGINT, name VARCHAR, attributes MAP(VARCHAR, VARCHAR))[]"
_LINKS = "STRUCT(trace_id BLOB, span_id BLOB, trace_state VARCHAR, attributes MAP(VARCHAR, VARCHAR))[]"
MAP = "MAP(VARCHAR, VARCHAR)"
SPAN_COLUMNS: Mapping[str, str] = {
    "trace_id": "BLOB", "span_id": "BLOB", "parent_span_id": "BLOB",
    "start_ns": "BIGINT", "end_ns": "BIGINT",
    "service_name": "VARCHAR", "name": "VARCHAR", "kind": "INTEGER",
    "status_code": "INTEGER", "status_message": "VARCHAR", "trace_state": "VARCHAR", "flags": "BIGINT",
    "attributes": MAP, "resource_attributes": MAP, "scope_name": "VARCHAR", "scope_version": "VARCHAR",
    "events": _EVENTS, "links": _LINKS, "size": "BIGINT",
}  # fmt: skip
"""Columns of the span relation, with their types in DuckDB; `size` is an estimate of the bytes as OTLP."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns that a query reads of the relation."""

    columns: frozenset[str] = frozenset(SPAN_COLUMNS)
    attributes: tuple[Attribute, ...] = ()
    without: tuple[int, ...] = ()
    """Raw objects whose spans are left out; only segments of the lake know them."""

    def __post_init__(self) -> None:
        unknown = sorted(self.columns - set(SPAN_COLUMNS))
        if unknown:
            raise ValueError(f"no columns of spans: {', '.join(unknown)}")


EVERYTHING = Wanted()


class SpanShape(Protocol):
    """A table shape."""

    name: str

    def prepare(self, files: Sequence[str], folder: Path) -> Sequence[str]:
        """Return files that `relation` can read: decoded ones in `folder` where the table holds raw bytes."""

    def relation(self, files: Sequence[str], schema: pa.Schema, wanted: Wanted = EVERYTHING) -> str:
        """Return a SELECT over prepared files."""


class CanonicalShape:
    """A span is a row, named as in the OpenTelemetry protocol.

    A column may bear any of its names (`operation_name`, `span_name`, `name`); one that the table lacks is
    null. Attributes are a map of text, or columns of their own named by the key or `attr_…`, `resource_…`.
    """

    name = "canonical"
    spellings: Mapping[str, tuple[str, ...]] = {
        "trace_id": ("trace_id", "traceId"), "span_id": ("span_id", "spanId"),
        "parent_span_id": ("parent_span_id", "parentSpanId"),
        "service_name": ("service_name", "serviceName"),
        "name": ("name", "operation_name", "span_name"), "kind": ("kind", "span_kind"),
        "status_code": ("status_code", "statusCode"), "status_message": ("status_message", "statusMessage"),
        "trace_state": ("trace_state", "traceState"), "flags": ("flags", "trace_flags"),
        "attributes": ("attributes", "span_attributes"), "resource_attributes": ("resource_attributes",),
        "scope_name": ("scope_name",), "scope_version": ("scope_version",),
        "events": ("events",), "links": ("links",),
    }  # fmt: skip

    def prepare(self, files: Sequence[str], folder: Path) -> Sequence[str]:  # noqa: ARG002 - as they are
        return files

    def relation(self, files: Sequence[str], schema: pa.Schema, wanted: Wanted = EVERYTHING) -> str:
        reading = _Columns(schema, self.spellings)
        chosen = [f"{reading.column(name)} AS {name}" for name in SPAN_COLUMNS if name in wanted.columns]
        chosen += [f"{reading.attribute(each)} AS {quoted(each.column)}" for each in wanted.attributes]
        return f"SELECT {', '.join(chosen)} FROM {parquet(files)}"


class _Columns:
    """Expressions over one schema."""

    def __init__(self, schema: pa.Schema, spellings: Mapping[str, tuple[str, ...]]) -> None:
        self._schema = schema
        self._spellings = spellings

    def column(self, name: str) -> str:
        if name in _COMPUTED:
            return _COMPUTED[name](self)
        field = self.find(name)
        if field is None:
            if name == "trace_id":
                raise ShapeError(f"the table has no column trace_id; it has {', '.join(self._schema.names)}")
            return f"NULL::{SPAN_COLUMNS[name]}"
        return converted(name, field)

    def find(self, name: str) -> pa.Field | None:
        spelling = next((each for each in self._spellings[name] if each in self._schema.names), None)
        return None if spelling is None else self._schema.field(spelling)

    def has(self, name: str) -> bool:
        return name in self._schema.names

    def type_of(self, name: str) -> pa.DataType:
        return self._schema.field(name).type

    def attribute(self, attribute: Attribute) -> str:
        key = attribute.key
        if attribute.scope is Scope.RESOURCE and key == "service.name" and not self._own(attribute):
            service = self.column("service_name")
            found = self._mapped("resource_attributes", key)
            return f"coalesce({found}, {service})" if found else service
        own = self._own(attribute)
        if own:
            return f"CAST({quoted(own)} AS VARCHAR)"
        mapped = {Scope.SPAN: "attributes", Scope.RESOURCE: "resource_attributes"}.get(attribute.scope)
        return (self._mapped(mapped, key) if mapped else "") or "NULL::VARCHAR"

    def _own(self, attribute: Attribute) -> str:
        """Name the column that holds this attribute alone."""
        plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in attribute.key.lower())
        prefix = {Scope.SPAN: "attr", Scope.RESOURCE: "resource", Scope.SCOPE: "scope"}[attribute.scope]
        names = (f"{prefix}_{plain}", attribute.key) if "." in attribute.key else (f"{prefix}_{plain}",)
        taken = {each for spellings in self._spellings.values() for each in spellings}
        return next((each for each in names if self.has(each) and each not in taken), "")

    def _mapped(self, name: str, key: str) -> str:
        field = self.find(name)
        return f"({converted(name, field)})[{text(key)}]" if field is not None else ""


def _start_ns(columns: _Columns) -> str:
    for name, scale in (("start_ns", 1), ("start_time_unix_nano", 1), ("startTimeUnixNano", 1),
                        ("timestamp_ns", 1), ("timestamp", 1), ("timestamp_ms", 10**6)):  # fmt: skip
        if columns.has(name):
            is_time = pa.types.is_timestamp(columns.type_of(name))
            return f"epoch_ns({quoted(name)})" if is_time else f"CAST({quoted(name)} AS BIGINT) * {scale}"
    raise ShapeError("the table has no start of spans: name a column start_ns, timestamp or timestamp_ms")


def _end_ns(columns: _Columns) -> str:
    for name in ("end_ns", "end_time_unix_nano", "endTimeUnixNano", "end_timestamp"):
        if columns.has(name):
            is_time = pa.types.is_timestamp(columns.type_of(name))
            return f"epoch_ns({quoted(name)})" if is_time else f"CAST({quoted(name)} AS BIGINT)"
    start = _start_ns(columns)
    for name, scale in (("duration_ns", 1), ("duration_us", 1000), ("duration_ms", 10**6)):
        if columns.has(name):
            return f"{start} + coalesce(CAST({quoted(name)} * {scale} AS BIGINT), 0)"
    return start


def _size(columns: _Columns) -> str:
    texts = [each for each in ("name", "status_message", "trace_state") if columns.find(each) is not None]
    parts = [f"coalesce(strlen({columns.column(name)}), 0)" for name in texts]
    for name in ("attributes", "resource_attributes"):
        if columns.find(name) is not None:
            held = columns.column(name)
            parts.append(f"coalesce(strlen(concat_ws('', map_keys({held}), map_values({held}))), 0)")
    return " + ".join([str(BYTES_OF_SPAN), *parts])


BYTES_OF_SPAN = 80
"""Bytes that OTLP spends on ids, times and tags of a span."""
_COMPUTED = {"start_ns": _start_ns, "end_ns": _end_ns, "size": _size}


def converted(name: str, field: pa.Field) -> str:
    """Cast a column of the table to the type of the relation."""
    column, kind = quoted(field.name), field.type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if name in {"trace_id", "span_id", "parent_span_id"}:
        read = f"unhex({column})" if is_text else column
        return f"nullif({read}, ''::BLOB)" if name == "parent_span_id" else read
    if name in {"kind", "status_code"}:
        names = KINDS if name == "kind" else STATUS_CODES
        return _numbered(column, names, prefix=name) if is_text else f"CAST({column} AS INTEGER)"
    if name in {"events", "links"}:
        return _structs(name, column, kind)
    return f"CAST({column} AS {SPAN_COLUMNS[name]})"


KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS_CODES = ("unset", "ok", "error")


def _numbered(column: str, names: Sequence[str], prefix: str) -> str:
    """Read names such as `server` or `SPAN_KIND_SERVER` as OTLP's numbers."""
    long = {"kind": "span_kind_", "status_code": "status_code_"}[prefix]
    cases = " ".join(f"WHEN '{each}' THEN {number}" for number, each in enumerate(names))
    return f"CASE replace(lower({column}), '{long}', '') {cases} ELSE try_cast({column} AS INTEGER) END"


def _structs(name: str, column: str, kind: pa.DataType) -> str:
    """Rebuild a list of structs with the fields that events or links have here."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(
        kind.value_type
    ):
        return f"NULL::{SPAN_COLUMNS[name]}"
    held = {field.name for field in kind.value_type}
    spellings: dict[str, dict[str, tuple[str, ...]]] = {
        "events": {"time_ns": ("time_ns", "ts", "tsns", "time_unix_nano", "timestamp"), "name": ("name",),
                   "attributes": ("attributes",)},
        "links": {"trace_id": ("trace_id",), "span_id": ("span_id",), "trace_state": ("trace_state",),
                  "attributes": ("attributes",)},
    }  # fmt: skip
    fields = spellings[name]
    found = {field: next((each for each in names if each in held), None) for field, names in fields.items()}
    lists = {each.name for each in kind.value_type if pa.types.is_list(each.type)}

    def read(field: str | None) -> str:
        if field is None:
            return "NULL"
        if field == "attributes" and field in lists:  # the lake's: key, kind, value
            return _FIRST_OF_EACH_KEY
        return f"e.{quoted(field)}"

    packed = ", ".join(f"'{name}': {read(field)}" for name, field in found.items())
    return f"CAST(list_transform({column}, lambda e: {{{packed}}}) AS {SPAN_COLUMNS[name]})"


_FIRST_OF_EACH_KEY = (
    "map_from_entries(list_transform(list_filter(e.attributes, lambda a, i: "
    "NOT list_contains(list_transform(e.attributes[:i - 1], lambda b: b.key), a.key)), "
    "lambda a: {'k': a.key, 'v': a.value}))"
)
"""Map of a list of attributes in which keys may repeat."""


class AutomqFlatShape(CanonicalShape):
    """AutoMQ's Table Topic with `transform.value.type=flatten`: a record is a span, a field is a column."""

    name = "automq_flat"


def schema_of(files: Sequence[str], source: AbstractFileSystem | None = None) -> pa.Schema:
    """Return the columns that files have together; of those that differ in type, the first."""
    fields: dict[str, pa.Field] = {}
    for file in files:
        for field in pq.read_schema(file, filesystem=source):
            fields.setdefault(field.name, field)
    return pa.schema(list(fields.values()))


def parquet(files: Sequence[str]) -> str:
    """Return the FROM clause of some files, whose columns are joined by name."""
    named = ", ".join(map(text, files))
    return f"read_parquet([{named}], union_by_name=true, hive_partitioning=false)"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
