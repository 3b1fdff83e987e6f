"""Small Iceberg tables of spans, in the shape of the tail-sampling seed, over a catalog of SQLite."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    FixedType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
)

BASE_NS = 1_700_000_000 * 10**9
SECOND_NS = 10**9
NAME = "default.spans"
_FIELDS = (
    ("trace_id", FixedType(16)), ("span_id", FixedType(8)), ("parent_span_id", BinaryType()),
    ("status_code", IntegerType()), ("start_ns", LongType()), ("end_ns", LongType()),
    ("service_name", StringType()), ("name", StringType()), ("kind", IntegerType()),
    ("status_message", StringType()), ("trace_state", StringType()),
    ("attributes", MapType(100, StringType(), 101, StringType(), False)),
    ("resource_attributes", MapType(102, StringType(), 103, StringType(), False)),
)  # fmt: skip


@dataclass(frozen=True)
class SpanRow:
    """One span of a test; times are seconds after `BASE_NS`."""

    trace: int
    span: int = 1
    at_s: float = 0.0
    for_s: float = 0.1
    error: bool = False
    parent: int | None = None
    service: str = "shop"
    name: str = "GET /"
    state: str | None = None
    attributes: dict[str, str] = field(default_factory=dict, hash=False)


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def catalog_properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def make_table(folder: Path, buckets: int = 0, properties: dict[str, str] | None = None) -> Table:
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("lakerunner", **{**catalog_properties(folder), **(properties or {})})
    catalog.create_namespace_if_not_exists("default")
    fields = [NestedField(at, name, kind, required=False) for at, (name, kind) in enumerate(_FIELDS, 1)]
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(buckets), "bucket")) if buckets else None
    chosen = {"partition_spec": spec} if spec else {}
    return catalog.create_table(NAME, Schema(*fields), properties={"format-version": "2"}, **chosen)


def arrow(table: Table, rows: Sequence[SpanRow]) -> pa.Table:
    columns = {
        "trace_id": [trace_id(row.trace) for row in rows],
        "span_id": [row.span.to_bytes(8, "big") for row in rows],
        "parent_span_id": [None if row.parent is None else row.parent.to_bytes(8, "big") for row in rows],
        "status_code": [2 if row.error else 0 for row in rows],
        "start_ns": [BASE_NS + round(row.at_s * SECOND_NS) for row in rows],
        "end_ns": [BASE_NS + round((row.at_s + row.for_s) * SECOND_NS) for row in rows],
        "service_name": [row.service for row in rows],
        "name": [row.name for row in rows],
        "kind": [2] * len(rows),
        "status_message": ["failed" if row.error else None for row in rows],
        "trace_state": [row.state for row in rows],
        "attributes": [list(row.attributes.items()) for row in rows],
        "resource_attributes": [[("service.name", row.service), ("host.name", "h1")] for row in rows],
    }
    return pa.table(columns, schema=table.schema().as_arrow())


def append(table: Table, *rows: SpanRow) -> None:
    append_arrow(table, arrow(table, rows))


def append_arrow(table: Table, spans: pa.Table) -> None:
    """Append a commit; a table in buckets gets a file for each, which pyiceberg cannot write without Rust."""
    if table.spec().is_unpartitioned():
        table.append(spans)
        return
    transform = table.spec().fields[0].transform.transform(FixedType(16))
    buckets = np.array([transform(one) for one in spans["trace_id"].to_pylist()])
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as producer:
        for bucket in sorted(set(buckets.tolist())):
            found = spans.filter(pa.array(buckets == bucket))
            producer.append_data_file(_write(table, found, Record(bucket)))


def swap(table: Table, *rows: SpanRow) -> None:
    """Replace all files by one, in one snapshot, as the lake's compaction is seen in its table."""
    table.refresh()
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as producer:
        for task in table.scan().plan_files():
            producer.delete_data_file(task.file)
        producer.append_data_file(_write(table, arrow(table, rows), Record()))


def _write(table: Table, spans: pa.Table, partition: Record) -> DataFile:
    path = f"{table.location()}/data/{uuid.uuid4().hex}.parquet"
    local = Path(path.removeprefix("file://"))
    local.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(spans, local, compression="zstd", row_group_size=16_384)
    return DataFile.from_args(
        _table_format_version=2, content=DataFileContent.DATA, file_path=path,
        file_format=FileFormat.PARQUET, partition=partition, record_count=spans.num_rows,
        file_size_in_bytes=local.stat().st_size, column_sizes={}, value_counts={}, null_value_counts={},
        nan_value_counts={}, lower_bounds={}, upper_bounds={}, split_offsets=None, equality_ids=None,
        sort_order_id=None, spec_id=table.spec().spec_id,
    )  # fmt: skip
