"""Loki's JSON from rows: what becomes one stream, and in which order."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakerunner_query.api.loki.render import streams_json
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.protocol.tables import ROWS


def rows(*found: tuple[int, str, str, str]) -> pa.Table:
    """(time, labels, line, metadata)"""
    times, labels, lines, metadata = zip(*found, strict=True)
    encoded = pa.array(labels, pa.string()).dictionary_encode()
    ids = list(range(len(found)))
    parsed = ["{}"] * len(found)
    return pa.table([times, encoded, lines, metadata, parsed, ids, ids], names=ROWS.names).cast(ROWS)


def streams(*tables: pa.Table, categorize: bool = False) -> list[dict[str, Any]]:
    body = json.loads(streams_json(tables, RowMerge(9), 1.0, categorize))
    found: list[dict[str, Any]] = body["result"]
    return found


def test_rows_whose_labels_and_metadata_add_up_to_the_same_are_one_stream() -> None:
    """Some producers send a label as attribute, others as stream label: dashboards key by the sum."""
    found = streams(
        rows((4, '{"a":"1"}', "d", '{"b":"2"}'), (3, '{"a":"1","b":"2"}', "c", "{}")),
        rows((2, '{"a":"1"}', "b", '{"b":"2"}'), (1, '{"a":"1"}', "a", "{}")),
    )
    assert found == [
        {"stream": {"a": "1"}, "values": [["1", "a"]]},
        {"stream": {"a": "1", "b": "2"}, "values": [["4", "d"], ["3", "c"], ["2", "b"]]},
    ]


def test_categories_are_told_apart_inside_one_stream() -> None:
    table = rows((2, '{"a":"1"}', "b", '{"b":"2"}'), (1, '{"a":"1","b":"2"}', "a", "{}"))
    (stream,) = streams(table, categorize=True)
    assert stream["values"] == [["2", "b", {"structuredMetadata": {"b": "2"}}], ["1", "a", {}]]


def test_text_that_breaks_json_or_lines() -> None:
    line = 'a"b\\c\n\r\0\u2028\ud7ff\U0010ffff</script>'
    (stream,) = streams(rows((2**63 - 1, json.dumps({"a": line}), line, json.dumps({"a": line}))))
    assert stream == {
        "stream": {"a": line, "a_extracted": line},
        "values": [[str(2**63 - 1), line]],
    }
