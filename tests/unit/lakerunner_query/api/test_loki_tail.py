"""Messages of a tail: what fits into one, what is told as dropped, and runs of one stream."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakerunner_query.api.loki import tail
from lakerunner_query.api.loki.tail import count_fitting, message
from lakerunner_query.protocol.tables import ROWS


def rows(*found: tuple[int, str, str]) -> pa.Table:
    """(time, service, line)"""
    times, services, lines = zip(*found, strict=True)
    labels = pa.array([json.dumps({"service_name": one}) for one in services]).dictionary_encode()
    count = len(found)
    columns = [times, labels, lines, ['{"user":"u"}'] * count, ["{}"] * count, range(count), range(count)]
    arrays = [one if isinstance(one, pa.Array) else pa.array(list(one)) for one in columns]
    return pa.table(dict(zip(ROWS.names, arrays, strict=True))).cast(ROWS)


def test_neighbours_of_a_stream_are_one_run_in_the_order_of_time() -> None:
    told = json.loads(message(rows((1, "a", "x"), (2, "a", "y"), (3, "b", "z"), (4, "a", "w")), False))
    assert [(one["stream"]["service_name"], [v[1] for v in one["values"]]) for one in told["streams"]] == [
        ("a", ["x", "y"]), ("b", ["z"]), ("a", ["w"]),
    ]  # fmt: skip
    assert list(told) == ["streams"]
    assert told["streams"][0]["stream"] == {"service_name": "a", "user": "u"}


def test_categories_leave_only_the_streams_own_labels() -> None:
    told = json.loads(message(rows((1, "a", "x")), True))
    assert told["streams"] == [
        {"stream": {"service_name": "a"}, "values": [["1", "x", {"structuredMetadata": {"user": "u"}}]]}
    ]
    assert told["encodingFlags"] == ["categorize-labels"]


def test_a_message_is_bounded_by_size_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "SENT_BYTES", 10)
    many = rows((1, "a", "x" * 6), (2, "a", "y" * 4), (3, "b", "z"))
    assert count_fitting(many) == 2
    assert count_fitting(many.slice(1)) == 2
    told = json.loads(message(many, False))
    assert told["dropped_entries"] == [{"labels": {"service_name": "b", "user": "u"}, "timestamp": "3"}]
    assert count_fitting(rows((1, "a", "x" * 100))) == 1, "a line that is too long alone is sent alone"


def test_a_message_is_bounded_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "SENT", 1)
    assert count_fitting(rows((1, "a", ""), (2, "a", ""))) == 1
