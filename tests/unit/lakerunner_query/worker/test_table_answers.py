"""Tables travel with their report and the metadata of their fields."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakerunner_query.protocol.tables import decode_table_answer, encode_table_answer
from lakerunner_query.protocol.units import Missing, UnitReport

SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.timestamp("us")),
        pa.field("attr_http_route", pa.string(), metadata={b"original": b"http.route"}),
        pa.field("labels", pa.map_(pa.string(), pa.string())),
        pa.field("sum", pa.decimal128(38, 0)),
    ]
)


@pytest.mark.parametrize(
    "rows", [[], [{"timestamp": 7, "attr_http_route": "/", "labels": [("a", "b")], "sum": 2}]]
)
def test_a_table_comes_back_as_it_was_sent(rows: list[dict[str, object]]) -> None:
    report = UnitReport(missing=(Missing("s", "gone"),), rows_considered=3)
    table = pa.Table.from_pylist(rows, SCHEMA)
    found, told = decode_table_answer(encode_table_answer(table, report))
    assert found.equals(table)
    assert told == report
    assert found.schema.field("attr_http_route").metadata == {b"original": b"http.route"}
