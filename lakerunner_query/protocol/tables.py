"""Tables travel from workers as Arrow streams.

The report of the unit stands in the metadata of the schema.
"""

from __future__ import annotations

from typing import cast

import msgspec
import pyarrow as pa

from lakerunner_query.protocol.units import UnitReport

REPORT = b"lakerunner.report"

ROWS = pa.schema(
    [
        ("tsns", pa.int64()),
        ("labels", pa.dictionary(pa.int32(), pa.string())),  # JSON object, keys sorted
        ("line", pa.string()),
        ("metadata", pa.string()),  # JSON object, keys sorted
        ("parsed", pa.string()),  # JSON object, keys sorted: labels that stages made
        ("object", pa.int64()),
        ("position", pa.int64()),
    ]
)


def encode_answer(rows: pa.Table, report: UnitReport) -> bytes:
    schema = ROWS.with_metadata({REPORT: msgspec.json.encode(report)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(rows.cast(ROWS).unify_dictionaries().replace_schema_metadata(schema.metadata))
    return cast("bytes", sink.getvalue().to_pybytes())


def decode_answer(body: bytes) -> tuple[pa.Table, UnitReport]:
    table = pa.ipc.open_stream(body).read_all()
    return table, msgspec.json.decode(table.schema.metadata[REPORT], type=UnitReport)


def encode_table_answer(rows: pa.Table, report: UnitReport) -> bytes:
    """Encode any table with the report; metadata of its fields stays."""
    metadata = {**(rows.schema.metadata or {}), REPORT: msgspec.json.encode(report)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata(metadata)) as writer:
        writer.write_table(rows.replace_schema_metadata(metadata))
    return cast("bytes", sink.getvalue().to_pybytes())


def decode_table_answer(body: bytes) -> tuple[pa.Table, UnitReport]:
    """Decode a table, whose columns stay in `body`."""
    table = pa.ipc.open_stream(body).read_all()
    return table, msgspec.json.decode(table.schema.metadata[REPORT], type=UnitReport)
