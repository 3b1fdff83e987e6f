"""What the protobuf runtime reads in a request, in the words of our columns."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.decode.otlp.owners import LAST_NS
from resources.otel_text import double_text

KIND = {
    "string_value": "string",
    "bool_value": "bool",
    "int_value": "int",
    "double_value": "double",
    "array_value": "array",
    "kvlist_value": "kvlist",
    "bytes_value": "bytes",
    None: "empty",
}


def kind_of(value: AnyValue) -> str:
    return KIND[value.WhichOneof("value")]


def typed(value: AnyValue) -> Any:
    """The value of a flat column."""
    kind = kind_of(value)
    if kind in {"int", "double", "bool"}:
        number = getattr(value, f"{kind}_value")
        return "NaN" if isinstance(number, float) and math.isnan(number) else number
    return text(value)


def text(value: AnyValue) -> str:
    """The string form."""
    kind = kind_of(value)
    if kind == "string":
        return value.string_value
    if kind == "bytes":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "double":
        return double_text(value.double_value)
    return "" if kind == "empty" else json_text(value)


def json_text(value: AnyValue) -> str:
    kind = kind_of(value)
    if kind == "array":
        return f"[{','.join(json_text(inner) for inner in value.array_value.values)}]"
    if kind == "kvlist":
        pairs = (
            f"{json.dumps(p.key, ensure_ascii=False)}:{json_text(p.value)}" for p in value.kvlist_value.values
        )
        return f"{{{','.join(pairs)}}}"
    if kind == "bool":
        return "true" if value.bool_value else "false"
    if kind == "int":
        return str(value.int_value)
    if kind == "double":
        number = double_text(value.double_value)
        return number if math.isfinite(value.double_value) else f'"{number}"'
    return "null" if kind == "empty" else json.dumps(text(value), ensure_ascii=False)


def expected_rows(payload: bytes, arrival_ns: int) -> Iterator[dict[str, Any]]:
    for group in ExportLogsServiceRequest.FromString(payload).resource_logs:
        for scope in group.scope_logs:
            for record in scope.log_records:
                time = min(record.time_unix_nano, LAST_NS)
                observed = min(record.observed_time_unix_nano, LAST_NS)
                yield {
                    "chq_tsns": time or observed or arrival_ns,
                    "chq_observed_tsns": observed or None,
                    "log_severity_number": record.severity_number,
                    "log_severity_text": record.severity_text or None,
                    "log_message": text(record.body),
                    "chq_body_kind": kind_of(record.body),
                    "trace_id": record.trace_id
                    if len(record.trace_id) == 16 and any(record.trace_id)
                    else None,
                    "span_id": record.span_id if len(record.span_id) == 8 and any(record.span_id) else None,
                    "log_flags": record.flags,
                    "event_name": record.event_name or None,
                    "chq_dropped_attributes": record.dropped_attributes_count,
                    "chq_resource_dropped_attributes": group.resource.dropped_attributes_count,
                    "chq_scope_dropped_attributes": scope.scope.dropped_attributes_count,
                    "scope_name": scope.scope.name or None,
                    "scope_version": scope.scope.version or None,
                    "scope_schema_url": scope.schema_url or None,
                    "resource_schema_url": group.schema_url or None,
                    "attributes": first_of_each(
                        ("resource", group.resource.attributes),
                        ("scope", scope.scope.attributes),
                        ("record", record.attributes),
                    ),
                }


def first_of_each(*sources: tuple[str, Any]) -> dict[tuple[str, str, str], Any]:
    """Flat columns hold the first value of a key; repeats are in the overflow map (tested there)."""
    found: dict[tuple[str, str, str], Any] = {}
    for where, pairs in sources:
        for pair in pairs:
            found.setdefault((where, pair.key, kind_of(pair.value)), typed(pair.value))
    return found


def found_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a decoded table in the same words."""
    rows: list[dict[str, Any]] = [{"attributes": {}} for _ in range(table.num_rows)]
    for field, column in zip(table.schema, table.columns, strict=True):
        attribute = attribute_of(field)
        for row, value in zip(rows, column.to_pylist(), strict=True):
            if attribute is None:
                row[field.name] = value
            elif value is not None:
                nan = isinstance(value, float) and math.isnan(value)
                row["attributes"][attribute.scope, attribute.key, attribute.kind] = "NaN" if nan else value
    return rows


def assert_same(payload: bytes, tables: list[pa.Table], arrival_ns: int) -> int:
    """Every record, every field; returns how many records there were."""
    expected = list(expected_rows(payload, arrival_ns))
    found = [row for table in tables for row in found_rows(table)]
    assert len(found) == len(expected)
    for position, (want, have) in enumerate(zip(expected, found, strict=True)):
        assert have["chq_position"] == position
        assert {name: have[name] for name in want} == want
    return len(expected)
