"""Files as newcomers have them: a date and a time in two columns, rows without a message."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from resources.lake.layout import Signal
from tests.support.decode.foreign_files import ARRIVAL, WRITERS, as_parquet, decode_rows, decoded, notes_of

NS = 1_000_000_000
AT = 1767323045 * NS  # 2026-01-02T03:04:05


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ({"date": "2026-01-02", "time": "03:04:05"}, {}),
        ({"time": "03:04:05.000", "date": "2026/01/02"}, {}),
        ({"date": "2026-01-02", "time": "05:04:05+02:00"}, {}),
        ({"day": "2026-01-02", "clock": "03:04:05"}, {"timestamp": ["day", "clock"]}),
    ],
)
def test_a_date_and_a_time_of_day_are_one_time(
    form: str, record: dict[str, str], fields: dict[str, list[str]]
) -> None:
    """They were midnight, and the time an attribute."""
    (row,) = decode_rows(WRITERS[form]([{**record, "msg": "x"}]), form, fields=fields)
    assert row["chq_tsns"] == AT
    assert row["attributes"] == {}


def test_dates_and_times_of_parquets_own_types() -> None:
    table = pa.table({"date": [dt.date(2026, 1, 2)] * 2, "time": [dt.time(3, 4, 5), None], "msg": ["a", "b"]})
    first, second = decode_rows(as_parquet(table), "parquet")
    assert (first["chq_tsns"], second["chq_tsns"]) == (AT, AT - AT % (86_400 * NS))


def test_rows_with_a_date_alone_are_counted() -> None:
    records = [{"date": "2026-01-02", "time": text, "msg": "x"} for text in ("03:04:05", "noon", "")]
    parts = decoded(WRITERS["csv"](records), "csv")
    assert notes_of(parts)["time_from_date"] == 2
    rows = decode_rows(WRITERS["csv"](records), "csv")
    assert [row["chq_tsns"] - AT for row in rows] == [0, -11045 * NS, -11045 * NS]
    assert rows[1]["attributes"] == {("record", "time", "string"): "noon"}


@pytest.mark.parametrize("signal", [Signal.METRICS, Signal.TRACES])
def test_metrics_and_spans_have_them_too(signal: Signal) -> None:
    record = {"date": "2026-01-02", "time": "03:04:05", "name": "up", "value": "1", "trace_id": "a" * 32}
    (row,) = decode_rows(WRITERS["csv"]([record]), "csv", signal)
    assert row.get("span_start_ns", row.get("chq_timestamp", 0) * 1_000_000) == AT


def test_a_whole_time_wins_over_a_date_and_a_time_of_day() -> None:
    record = {"ts": "2026-01-02T03:04:05Z", "date": "2020-01-01", "time": "01:02:03", "msg": "x"}
    (row,) = decode_rows(WRITERS["csv"]([record]), "csv")
    assert row["chq_tsns"] == AT
    assert len(row["attributes"]) == 2


@pytest.mark.parametrize("form", WRITERS)
def test_a_row_without_a_message_is_shown_with_its_fields(form: str) -> None:
    """Its line was empty."""
    records = [
        {"ts": "2026-01-02T03:04:05Z", "level": "warn", "user": "ann b", "path": 'a"b\\', "status": "200"},
        {"ts": "2026-01-02T03:04:05Z", "msg": "said", "user": "bob"},
        {"ts": "2026-01-02T03:04:05Z"},
    ]
    parts = decoded(WRITERS[form](records), form)
    lines = [text for part in parts for text in part.table.column("log_message").to_pylist()]
    assert lines == ['path="a\\"b\\\\" status=200 user="ann b"', "said", ""]
    assert notes_of(parts)["message_from_fields"] == 1
    kept = decode_rows(WRITERS[form](records), form)
    assert kept[0]["attributes"]["record", "user", "string"] == "ann b"
    assert kept[0]["chq_tsns"] != ARRIVAL


def test_numbers_flags_and_odd_names_in_such_a_line() -> None:
    record = {"a b": 1, "on": True, "none": "", "deep": {"x": 1.5}, "text": None, "n": "x\ny"}
    (row,) = decode_rows(WRITERS["json"]([record]), "json")
    assert row["log_message"] == 'a_b=1 deep.x=1.5 n="x\\ny" none="" on=true'


def test_an_empty_message_that_was_sent_stays_empty() -> None:
    (row,) = decode_rows(b'{"msg": "", "user": "ann"}\n', "json")
    assert row["log_message"] == ""
