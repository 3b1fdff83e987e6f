"""Foreign files for tests: one list of records in each format, decoded and as rows of Python values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.decode.dispatch import DecodedSlice, Decoder, Place, Request
from lakerunner_assets.decode.foreign.csv import decode_csv
from lakerunner_assets.decode.foreign.parquet import decode_parquet
from lakerunner_assets.decode.foreign.tables import decode_json_lines
from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.decode.payload import payload_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions

Record = Mapping[str, Any]
ARRIVAL = 1_800_000_000_000_000_000
DECODERS = {"json": decode_json_lines, "csv": decode_csv, "parquet": decode_parquet}


def as_json(records: Sequence[Record]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def as_csv(records: Sequence[Record]) -> bytes:
    """Absent values are empty cells; everything else its text."""
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[record.get(name, "") for name in names] for record in records])
    return text.getvalue().encode()


def as_parquet(records: Sequence[Record] | pa.Table, **options: Any) -> bytes:
    names = (
        [] if isinstance(records, pa.Table) else list(dict.fromkeys(n for record in records for n in record))
    )
    table = (
        records
        if isinstance(records, pa.Table)
        else pa.table({name: [record.get(name) for record in records] for name in names})
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


WRITERS = {"json": as_json, "csv": as_csv, "parquet": as_parquet}


def decoded(
    data: bytes,
    form: str,
    signal: Signal = Signal.LOGS,
    *,
    slice_bytes: int = 1 << 20,
    object_id: int = 7,
    fields: Mapping[str, Sequence[str]] | None = None,
    **options: Any,
) -> list[DecodedSlice]:
    """All slices of a file."""
    named = tuple((role, tuple(names)) for role, names in (fields or {}).items())
    request = Request("x", Place(object_id, 0, ARRIVAL), DecodeOptions(fields=named, **options), slice_bytes)
    decoder: Decoder = DECODERS[form](signal)
    parts = list(decoder(payload_of(data), request))
    for part in parts:
        part.table.validate(full=True)
    return parts


def rows_of(parts: Sequence[DecodedSlice]) -> list[dict[str, Any]]:
    """Rows without empty columns; attributes as {(scope, key, kind): value} under 'attributes'."""
    found: list[dict[str, Any]] = []
    for part in parts:
        rows: list[dict[str, Any]] = [{"attributes": {}} for _ in range(part.table.num_rows)]
        for field, column in zip(part.table.schema, part.table.columns, strict=True):
            attribute = attribute_of(field)
            for row, value in zip(rows, column.to_pylist(), strict=True):
                if value is None:
                    continue
                if attribute is None:
                    row[field.name] = value
                else:
                    row["attributes"][attribute.scope, attribute.key, attribute.kind] = value
        found += rows
    return found


def decode_rows(data: bytes, form: str, signal: Signal = Signal.LOGS, **options: Any) -> list[dict[str, Any]]:
    return rows_of(decoded(data, form, signal, **options))


def notes_of(parts: Sequence[DecodedSlice]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for note, count in part.notes.items():
            found[note] = found.get(note, 0) + count
    return found
