"""The web-shop logs in the formats of others: JSON lines, CSV and Parquet of the same records."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.corpus.logs import LEVELS, Event, resource_attributes, web_events
from benchmarks.ingest.corpus.wire import Value


@dataclass(frozen=True, slots=True)
class Twins:
    json_lines: Corpus
    json_gz: Corpus
    csv: Corpus
    parquet: Corpus


def web_twins(records: int) -> Twins:
    lines: list[bytes] = []
    tables: list[bytes] = []
    columns: list[bytes] = []
    for events in web_events(records):
        rows = [_row(event) for event in events]
        lines.append(b"\n".join(json.dumps(row).encode() for row in rows) + b"\n")
        tables.append(_csv(rows))
        columns.append(_parquet(rows, events))
    packed = tuple(gzip.compress(each, 6, mtime=0) for each in lines)
    return Twins(
        Corpus("JSON lines", tuple(lines), records),
        Corpus("JSON lines .gz", packed, records),
        Corpus("CSV", tuple(tables), records),
        Corpus("Parquet", tuple(columns), records),
    )


def _row(event: Event) -> dict[str, Value]:
    second, fraction = divmod(event.time_ns, 1_000_000_000)
    moment = dt.datetime.fromtimestamp(second, dt.UTC)
    return {
        "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09}Z",
        "level": LEVELS[event.severity],
        "message": event.body,
        "service_name": resource_attributes(event.resource)["service.name"],
        "pod": resource_attributes(event.resource)["k8s.pod.name"],
        "trace_id": event.trace_id.hex(),
        "span_id": event.span_id.hex(),
        **{key.replace(".", "_"): value for key, value in event.attributes},
    }


def _csv(rows: list[dict[str, Value]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _parquet(rows: list[dict[str, Value]], events: list[Event]) -> bytes:
    names: Mapping[str, Value] = rows[0]
    table = pa.table({name: [row[name] for row in rows] for name in names})
    times = pa.array([event.time_ns for event in events], pa.timestamp("ns", tz="UTC"))
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", times)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
