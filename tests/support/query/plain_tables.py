"""The rows of a lake in a plain DuckDB: files are read with pyarrow, row by row, by no code of the workers.

It says what the tables of LakeQL hold, in Python: one dict a row. Slow, simple, and its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.lakeql.tables import TABLES, LakeTable
from resources.index.types import Segment, SegmentQuery
from resources.lake import series, streams
from resources.lake.ddsketch import merged_quantiles
from resources.lake.few_samples import POINT_COLUMNS, sketch_points
from resources.lake.layout import Signal
from resources.lake.metric_values import BASE, DOUBLE, EXPONENT, SCALED
from resources.lake.rollup_columns import filled
from resources.lake.segment_file import read_label_map

PREFIXES = {"resource": "resource_", "scope": "scope_", "record": "attr_"}
TYPES = {"int": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN"}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
TRACES = """
CREATE VIEW traces AS
WITH once AS (SELECT DISTINCT ON (trace_id, span_id, kind, tsns) * FROM spans WHERE trace_id IS NOT NULL),
  roots AS (SELECT DISTINCT ON (trace_id) trace_id, service_name, name FROM once
            WHERE parent_span_id IS NULL ORDER BY trace_id, tsns, span_id)
SELECT min(timestamp) AS timestamp, any_value(organization_id) AS organization_id, trace_id,
  min(tsns) AS tsns, max(coalesce(end_tsns, tsns)) AS end_tsns,
  max(coalesce(end_tsns, tsns)) - min(tsns) AS duration_ns,
  (SELECT service_name FROM roots WHERE roots.trace_id = once.trace_id) AS root_service_name,
  (SELECT name FROM roots WHERE roots.trace_id = once.trace_id) AS root_name,
  count(*) AS span_count, count(*) FILTER (WHERE status_code = 'error') AS error_count,
  list_sort(list(DISTINCT service_name)) AS services
FROM once GROUP BY trace_id
"""
Row = dict[str, Any]


def plain_database(index: Any, folder: Path, org: str = "acme") -> duckdb.DuckDBPyConnection:
    """A DuckDB with the tables of LakeQL."""
    found = duckdb.connect()
    found.execute("SET TimeZone = 'UTC'")
    for table in TABLES.values():
        query = SegmentQuery(org, table.dataset, table.frequency_ms, -(2**62), 2**62)
        load(found, table, index.find_segments(query), folder, org)
    found.execute(TRACES)
    return found


def load(
    database: duckdb.DuckDBPyConnection, table: LakeTable, segments: Sequence[Segment], folder: Path, org: str
) -> None:
    rows: list[Row] = []
    kinds: dict[str, set[str]] = {}
    for segment in segments:
        for row, types in _rows(folder / segment.key, table):
            rows.append({"organization_id": org, **row})
            for name, kind in types.items():
                kinds.setdefault(name, set()).add(kind)
    types = {one.name: one.type for one in table.columns}
    more = {name: _type(each) for name, each in sorted(kinds.items()) if name not in types}
    types |= more
    listed = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
    database.execute(f"CREATE TABLE {table.name} ({listed})")
    columns = {
        name: pa.array([_shown(row.get(name), kind) for row in rows], _arrow(kind))
        for name, kind in types.items()
    }
    database.register("incoming", pa.table(columns))
    database.execute(f"INSERT INTO {table.name} SELECT * FROM incoming")
    database.unregister("incoming")


def _type(kinds: set[str]) -> str:
    return TYPES.get(next(iter(kinds)), "VARCHAR") if len(kinds) == 1 else "VARCHAR"


def _arrow(kind: str) -> pa.DataType:
    return {
        "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us"), "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
        "BLOB": pa.binary(),
    }.get(kind, pa.string())  # fmt: skip


def _shown(value: Any, kind: str) -> Any:
    if kind == "VARCHAR" and value is not None:
        return _text(value)
    return list(value.items()) if isinstance(value, dict) else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(path: Path, table: LakeTable) -> Iterator[tuple[Row, Mapping[str, str]]]:
    """The rows of a segment, with the OTLP kinds of its attributes."""
    read = pq.read_table(path)
    if not table.has_labels:
        for one in read.to_pylist():
            yield {**one, "timestamp": one["chq_timestamp"] * 1000}, {}
        return
    whole = _with_quantiles(filled(read)) if table.frequency_ms else read
    mapped = read_label_map(pq.read_metadata(path))
    labels = list(_labels(path, read, table))
    attributes = {one.column: read.column(one.column).to_pylist() for one in mapped}
    kinds = {_flat(one.scope, one.key): one.kind for one in mapped}
    for place, stored in enumerate(_dicts(whole)):
        row = _fixed(table, stored)
        own = labels[place]
        row["labels"] = {name: text for name, text in own.items() if name != "__name__"}
        row |= {name: text for name, text in row["labels"].items() if name not in row}
        for one in mapped:
            value = attributes[one.column][place]
            row.setdefault(_flat(one.scope, one.key), value)
        for scope, name in (("record", "attributes"), ("resource", "resource_attrs")):
            values = {one.key: attributes[one.column][place] for one in mapped if one.scope == scope}
            row[name] = {key: _text(each) for key, each in sorted(values.items()) if each is not None}
        if table.signal is Signal.LOGS:
            row["service_name"] = own.get("service_name")
        yield row, {**dict.fromkeys(row["labels"], "string"), **kinds}


def _dicts(table: pa.Table) -> Iterator[Row]:
    """Rows; doubles keep their bits, so that stale markers are seen."""
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        columns[name] = column.to_pylist()
        if name == DOUBLE:
            bits = column.fill_null(0.0).to_numpy(zero_copy_only=False).view(np.uint64)
            columns["bits"] = bits.tolist()
    for place in range(table.num_rows):
        yield {name: values[place] for name, values in columns.items()}


def _flat(scope: str, key: str) -> str:
    return PREFIXES[scope] + re.sub("[^a-z0-9]", "_", key.lower())


def _labels(path: Path, table: pa.Table, kind: LakeTable) -> Iterator[dict[str, str]]:
    facts = json.loads(next(v for v in pq.read_metadata(path).metadata.values() if b'"series_offset"' in v))
    at, length = int(facts["series_offset"]), int(facts["series_length"])
    raw = path.read_bytes()[at : at + length]
    if kind.in_milliseconds:
        for one in series.decode(raw, table.num_rows):
            yield from [dict(one.labels)] * one.rows
        return
    known = {one.stream_id: dict(one.labels) for one in streams.decode(raw)}
    for identity in table.column("chq_stream_id").to_pylist():
        yield known[identity]


def _hex(raw: bytes | None) -> str | None:
    return raw.hex() if raw and any(raw) else None


def _fixed(table: LakeTable, stored: Row) -> Row:
    match table.signal:
        case Signal.LOGS:
            return {
                "timestamp": stored["chq_tsns"] // 1000, "tsns": stored["chq_tsns"],
                "severity": stored["log_level"], "level": stored["log_level"],
                "detected_level": stored.get("detected_level"),
                "severity_number": stored.get("log_severity_number"), "message": stored["log_message"],
                "fingerprint": stored.get("chq_fingerprint"), "event_name": stored.get("event_name"),
                "trace_id": _hex(stored.get("trace_id")), "span_id": _hex(stored.get("span_id")),
            }  # fmt: skip
        case Signal.TRACES:
            return {
                "timestamp": stored["span_start_ns"] // 1000, "tsns": stored["span_start_ns"],
                "end_tsns": stored["span_end_ns"], "duration_ns": stored["span_duration_ns"],
                "service_name": stored["service_name"], "name": stored["span_name"],
                "kind": stored["span_kind"], "status_code": stored["span_status_code"],
                "status_message": stored.get("span_status_message"),
                "trace_state": stored.get("span_trace_state"),
                "trace_id": _hex(stored["span_trace_id"]), "span_id": _hex(stored["span_id"]),
                "parent_span_id": _hex(stored.get("span_parent_span_id")),
            }  # fmt: skip
    row = {
        "timestamp": stored["chq_timestamp"] * 1000, "metric_name": stored["metric_name"],
        "metric_type": stored.get("chq_metric_type"), "temporality": stored.get("metric_temporality"),
        "tid": stored["chq_tid"],
    }  # fmt: skip
    return row | (_rolled(stored) if table.frequency_ms else _sampled(stored))


def _sampled(stored: Row) -> Row:
    value = stored[DOUBLE]
    if value is not None and stored["bits"] == 0x7FF0_0000_0000_0002:
        value = None
    if stored[DOUBLE] is None and stored[SCALED] is not None:
        value = (stored[SCALED] + stored[BASE]) / 10 ** stored[EXPONENT]
    return {"value": value, "count": stored.get("chq_hist_count"), "sum": stored.get("chq_hist_sum")}


def _rolled(stored: Row) -> Row:
    found = {name: stored[f"chq_rollup_{name}"] for name in ("count", "sum", "min", "max", "first", "last")}
    found["avg"] = found["sum"] / found["count"] if found["count"] and found["sum"] is not None else None
    return found | {name: stored[name] for name in QUANTILES}


def _with_quantiles(table: pa.Table) -> pa.Table:
    columns = {name: table.column(name) for name in POINT_COLUMNS}
    sketches = table.column("chq_sketch").combine_chunks()
    rows = table.num_rows
    given = QUANTILES.values()
    points = sketch_points(pa.table(columns))
    found = merged_quantiles(sketches, np.arange(rows), rows, tuple(given), points)
    for place, name in enumerate(QUANTILES):
        table = table.append_column(name, pa.array(found[:, place], mask=np.isnan(found[:, place])))
    return table
