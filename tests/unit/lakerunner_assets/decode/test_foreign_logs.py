"""Foreign logs: what each column becomes, and that the format does not matter."""

from __future__ import annotations

import gzip
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from lakerunner_assets.decode.foreign.mapping import USUAL_NAMES, resolve
from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.segments.unify import unify
from resources.lake.options import FIELD_ROLES
from resources.lake.streams import labels_from_text, stream_id
from tests.support.decode.foreign_files import (
    ARRIVAL,
    WRITERS,
    as_csv,
    as_json,
    as_parquet,
    decode_rows,
    decoded,
    notes_of,
    rows_of,
)
from tests.support.decoding import decode_logs

FORMATS = sorted(WRITERS)
SECOND = 1767323045 * 10**9
"""2026-01-02T03:04:05Z."""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
RECORDS = [
    {
        "time": "2026-01-02T03:04:05.123456789Z",
        "level": "warn",
        "msg": 'slow "query", 12 ms',
        "service.name": "web",
        "trace_id": TRACE,
        "span_id": SPAN,
        "region": "eu",
    },
    {"time": "2026-01-02 03:04:06,5", "level": "Error3", "msg": "grüße 🎉", "service.name": "api"},
    {"time": "2026-01-02T05:04:07+02:00", "msg": "panic: info", "region": "us"},
]


def named(**fields: str) -> dict[str, list[str]]:
    return {role: [name] for role, name in fields.items()}


@pytest.mark.parametrize("form", FORMATS)
def test_every_role_by_hand(form: str) -> None:
    first, second, third = decode_rows(WRITERS[form](RECORDS), form)
    assert first["chq_tsns"] == SECOND + 123456789
    assert second["chq_tsns"] == SECOND + 1_500_000_000
    assert third["chq_tsns"] == SECOND + 2_000_000_000
    assert [row["chq_position"] for row in (first, second, third)] == [0, 1, 2]
    assert {row["chq_object"] for row in (first, second, third)} == {7}
    assert (first["log_level"], first["log_severity_text"], first["detected_level"]) == (
        "WARN",
        "warn",
        "warn",
    )
    assert (second["log_level"], second["log_severity_text"]) == ("ERROR", "Error3")
    assert "log_level" not in third
    assert third["detected_level"] == "info"
    assert (first["log_message"], second["log_message"]) == ('slow "query", 12 ms', "grüße 🎉")
    assert first["chq_body_kind"] == "string"
    assert first["trace_id"].hex() == TRACE
    assert first["span_id"].hex() == SPAN
    assert first["attributes"] == {
        ("resource", "service.name", "string"): "web",
        ("record", "region", "string"): "eu",
    }
    assert labels_from_text(first["chq_stream"]) == (("level", "warn"), ("service_name", "web"))
    assert labels_from_text(third["chq_stream"]) == (("service_name", "unknown_service"),)
    assert all(
        stream_id(labels_from_text(row["chq_stream"])) == row["chq_stream_id"] for row in (first, third)
    )


def otlp_rows() -> list[dict[str, Any]]:
    request = ExportLogsServiceRequest()
    times = (SECOND + 123456789, SECOND + 1_500_000_000, SECOND + 2_000_000_000)
    for record, time in zip(RECORDS, times, strict=True):
        group = request.resource_logs.add()
        if "service.name" in record:
            group.resource.attributes.add(key="service.name").value.string_value = record["service.name"]
        log = group.scope_logs.add().log_records.add(
            time_unix_nano=time,
            severity_text=record.get("level", ""),
            trace_id=bytes.fromhex(record.get("trace_id", "")),
            span_id=bytes.fromhex(record.get("span_id", "")),
        )
        log.body.string_value = record["msg"]
        if "region" in record:
            log.attributes.add(key="region").value.string_value = record["region"]
    return rows_of([decode_logs(request.SerializeToString(), object_id=7)])


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_records_as_otlp(form: str) -> None:
    """All but the stream, which has the level as a label here."""
    found = decode_rows(WRITERS[form](RECORDS), form)
    expected = otlp_rows()
    for row in (*found, *expected):
        row.pop("chq_stream"), row.pop("chq_stream_id")
    assert found == expected


@pytest.mark.parametrize("form", FORMATS)
def test_the_table_has_the_columns_and_types_of_otlp(form: str) -> None:
    (part,) = decoded(WRITERS[form](RECORDS), form)
    otlp = decode_logs(ExportLogsServiceRequest().SerializeToString()).table.schema

    def plain(kind: pa.DataType) -> pa.DataType:
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    have = {f.name: plain(f.type) for f in part.table.schema if attribute_of(f) is None}
    assert have == {f.name: plain(f.type) for f in otlp}
    unify([part.table, decode_logs(ExportLogsServiceRequest().SerializeToString()).table])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "ts": st.integers(10**18, 2 * 10**18).map(str),
                "msg": st.text("ab ü\n\"',;0", min_size=1, max_size=9),
            },
            optional={
                "lvl": st.sampled_from(["info", "WARN", "odd", "1"]),
                "app": st.sampled_from(["web", "api"]),
                "user": st.text("xyz é", min_size=1, max_size=4),
            },
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 64),
)
def test_texts_are_the_same_rows_in_every_format(records: list[dict[str, str]], window: int) -> None:
    found = {form: decode_rows(write(records), form) for form, write in WRITERS.items()}
    assert found["csv"] == found["json"] == found["parquet"]
    assert decode_rows(as_csv(records), "csv", slice_bytes=window) == found["csv"]
    assert decode_rows(as_parquet(records), "parquet", slice_bytes=window) == found["csv"]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("form", FORMATS)
def test_envelopes(form: str, pack: Any) -> None:
    data = WRITERS[form](RECORDS)
    with open_payload(pack(data), 1 << 20) as payload:
        opened = payload.read(0, payload.size)
    assert decode_rows(opened, form) == decode_rows(data, form)


def test_every_role_of_the_setting_has_usual_names() -> None:
    assert set(FIELD_ROLES) <= set(USUAL_NAMES)
    assert not [n for names in USUAL_NAMES.values() for n in names if n != n.lower() or "." in n]


@pytest.mark.parametrize("name", ["Trace.ID", "traceId", "TRACE_ID", "trace.id"])
def test_names_are_compared_without_case_and_dots(name: str) -> None:
    assert decode_rows(as_json([{name: TRACE}]), "json")[0]["trace_id"].hex() == TRACE


def test_the_first_name_with_a_value_wins_row_by_row() -> None:
    records = [{"message": "a", "msg": "b"}, {"msg": "c"}, {"text": "d", "other": "e"}]
    first, second, third = decode_rows(as_json(records), "json")
    assert [row["log_message"] for row in (first, second, third)] == ["a", "c", "d"]
    assert first["attributes"] == {("record", "msg", "string"): "b"}
    assert second["attributes"] == {}
    assert third["attributes"] == {("record", "other", "string"): "e"}


def test_own_names_come_before_usual_ones() -> None:
    records = [{"text": "mine", "message": "usual"}, {"message": "usual"}]
    first, second = decode_rows(as_json(records), "json", fields=named(message="text"))
    assert (first["log_message"], second["log_message"]) == ("mine", "usual")
    assert first["attributes"] == {("record", "message", "string"): "usual"}


def test_an_own_name_is_not_a_usual_name_of_another_role() -> None:
    keys = [("level", "string"), ("app", "string")]
    found = resolve(keys, [("service", ("level",))], ("level", "service"))
    assert found == {"level": [], "service": [("level", "string"), ("app", "string")]}


def test_own_names_reach_into_objects() -> None:
    data = as_json([{"http": {"route": "/x"}, "event": {"text": "hi"}}])
    (row,) = decode_rows(data, "json", fields=named(message="event.text", service="http.route"))
    assert row["log_message"] == "hi"
    assert row["attributes"] == {("resource", "service.name", "string"): "/x"}


def test_values_of_several_kinds() -> None:
    records = [
        {"msg": 5, "x": 1},
        {"msg": True, "x": "1"},
        {"msg": [1, "a"], "x": 1.5},
        {"msg": {"a": 1}, "x": None},
    ]
    rows = decode_rows(as_json(records), "json")
    assert [(row["log_message"], row["chq_body_kind"]) for row in rows] == [
        ("5", "int"),
        ("true", "bool"),
        ('[1,"a"]', "array"),
        ("msg.a=1", "empty"),
    ]
    assert [row["attributes"] for row in rows] == [
        {("record", "x", "int"): 1},
        {("record", "x", "string"): "1"},
        {("record", "x", "double"): 1.5},
        {("record", "msg.a", "int"): 1},
    ]


def test_unreadable_times_fall_back_and_stay() -> None:
    records = [
        {"time": "soon", "msg": "a"},
        {"time": "soon", "ts": SECOND, "msg": "b"},
        {"time": "soon", "observed_timestamp": "2026-01-02T03:04:05Z"},
        {"msg": "c"},
        {"time": "2026-01-02T03:04:05.0000000001Z"},
    ]
    parts = decoded(as_json(records), "json")
    rows = rows_of(parts)
    assert [row["chq_tsns"] for row in rows] == [ARRIVAL, SECOND, SECOND, ARRIVAL, SECOND]
    assert [row["attributes"].get(("record", "time", "string")) for row in rows] == [
        "soon",
        "soon",
        "soon",
        None,
        "2026-01-02T03:04:05.0000000001Z",
    ]
    assert rows[2]["chq_observed_tsns"] == SECOND
    assert notes_of(parts) == {
        "unreadable_time": 2,
        "time_from_observed": 1,
        "time_from_arrival": 2,
        "message_from_fields": 2,
    }


def test_what_is_no_id_stays_text() -> None:
    short = "8448eb211c80319c"
    records = [
        {"trace_id": "xyz", "span_id": SPAN.upper()},
        {"trace_id": short},
        {"trace_id": "0" * 32, "span_id": ""},
        {"trace_id": TRACE + "00", "traceId": TRACE},
    ]
    parts = decoded(as_json(records), "json")
    rows = rows_of(parts)
    assert [row.get("trace_id", b"").hex() for row in rows] == ["", "0" * 16 + short, "", TRACE]
    assert rows[0]["span_id"].hex() == SPAN
    assert [row["attributes"].get(("record", "trace_id", "string")) for row in rows] == [
        "xyz",
        short,
        None,
        TRACE + "00",
    ]
    assert notes_of(parts)["invalid_trace_id"] == 1
    assert "invalid_span_id" not in notes_of(parts)


def test_severity_numbers() -> None:
    records = [{"severity_number": 17}, {"severity_number": "9", "level": "odd"}, {"severity_number": 99}]
    rows = decode_rows(as_json(records), "json")
    assert [(row["log_severity_number"], row.get("log_level")) for row in rows] == [
        (17, "ERROR"),
        (9, "INFO"),
        (0, None),
    ]
    assert [row["attributes"] for row in rows] == [{}, {}, {("record", "severity_number", "int"): 99}]


def test_an_integer_level_is_not_guessed_at() -> None:
    (row,) = decode_rows(as_json([{"level": 30, "msg": "x"}]), "json")
    assert (row["log_level"], row["log_severity_text"]) == ("30", "30")


def test_index_attributes_are_stream_labels() -> None:
    data = as_json([{"app": "web", "env": "prod", "k8s": {"namespace": {"name": "shop"}}, "level": "INFO"}])
    (row,) = decode_rows(data, "json", index_attributes=("service.name", "ENV", "k8s.namespace.name"))
    assert labels_from_text(row["chq_stream"]) == (
        ("ENV", "prod"),
        ("k8s_namespace_name", "shop"),
        ("level", "info"),
        ("service_name", "web"),
    )
    assert row["attributes"]["record", "env", "string"] == "prod"


def test_malformed_lines_leave_their_neighbours() -> None:
    data = as_json([{"msg": "a"}]) + b'{"msg": "b"\nnot json\n' + as_json([{"msg": "c"}])
    parts = decoded(data, "json")
    rows = rows_of(parts)
    assert [(row["log_message"], row["chq_position"]) for row in rows] == [("a", 0), ("c", 3)]
    assert sum(part.rejected for part in parts) == 2
    assert 13 <= int(parts[0].first_rejected.removeprefix("byte ").split(":")[0]) <= 24


def test_a_file_of_nothing_usable_says_so() -> None:
    parts = decoded(b"time,message\n1\n2\n", "csv")
    assert [part.table.num_rows for part in parts] == [0]
    assert sum(part.rejected for part in parts) == 2


def test_more_keys_than_columns_go_to_the_overflow_map() -> None:
    names = [f"k{number:04d}" for number in range(1002)]
    data = as_csv([dict.fromkeys(names, "v"), {"k0000": "w", "k0001": "w"}])
    parts = decoded(data, "csv")
    first, second = rows_of(parts)
    assert len(first["attributes"]) == 1000
    assert first["attr_overflow"] == [("k1000", "v"), ("k1001", "v")]
    assert "attr_overflow" not in second
    assert notes_of(parts)["attributes_in_overflow"] == 2


def test_rows_without_any_value_are_rows() -> None:
    rows = decode_rows(b"message,x\n,\na,b\n", "csv")
    assert [row["log_message"] for row in rows] == ["", "a"]
    assert rows[0]["chq_tsns"] == ARRIVAL
