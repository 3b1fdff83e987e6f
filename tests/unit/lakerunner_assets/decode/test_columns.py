"""What single values become: names, collisions, overflow, odd text, fallbacks."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.attributes import attribute_columns
from lakerunner_assets.decode.dispatch import DecodedSlice
from lakerunner_assets.decode.naming import Attribute, assign, attribute_of
from lakerunner_assets.decode.otlp.logs import scan_slice
from resources.lake.streams import stream_id
from tests.support.decode.messages import sample
from tests.support.decoding import decode_logs


def decode(request: ExportLogsServiceRequest) -> DecodedSlice:
    return decode_logs(request.SerializeToString(), object_id=9, first_position=3, arrival_ns=77)


def one_record() -> tuple[ExportLogsServiceRequest, LogRecord]:
    request = ExportLogsServiceRequest()
    return request, request.resource_logs.add().scope_logs.add().log_records.add()


def test_a_whole_row() -> None:
    row = decode(sample()).table.slice(1, 1).to_pylist()[0]
    assert row["chq_position"] == 4
    assert (row["log_level"], row["detected_level"], row["log_severity_text"]) == (
        "INFO",
        "info",
        "Information",
    )
    assert row["attr_http_status_code"] == 201
    assert row["attr_tags"] == '["a",1]'
    assert row["attr_ctx"] == '{"k":1.0}'
    assert row["attr_blob"] == "AP8="
    assert row["resource_host_cpus"] == 8
    assert row["scope_name"] == "lib"


def test_records_may_have_far_more_attributes_than_most() -> None:
    request, record = one_record()
    for number in range(900):
        record.attributes.add(key=f"k{number}").value.int_value = number
    later = request.resource_logs[0].scope_logs[0].log_records.add()
    later.attributes.add(key="k7").value.int_value = -7
    first, second = decode(request).table.to_pylist()
    assert [first[f"attr_k{number}"] for number in range(900)] == list(range(900))
    assert {
        key: value for key, value in second.items() if key.startswith("attr_k") and value is not None
    } == {"attr_k7": -7}


def test_a_scope_attribute_called_name_does_not_take_the_scope_name() -> None:
    table = decode(sample()).table
    fields = {attribute_of(field): field.name for field in table.schema}
    name = fields[Attribute("scope", "name", "string")]
    assert name.startswith("scope_name__")
    assert table[name][0].as_py() == "collides with the scope's name"


def test_names_do_not_depend_on_order_and_never_clash() -> None:
    keys = ["a.b", "a_b", "A.B", "a.b__int", "a-b", "ä.b"]
    attributes = [Attribute("record", key, kind) for key in keys for kind in ("string", "int", "bool")]
    names = assign(attributes)
    assert len(set(names.values())) == len(attributes)
    assert names[Attribute("record", "a.b", "string")] == "attr_a_b"
    assert (
        names[Attribute("record", "a.b__int", "string")] == "attr_a_b__int"
    )  # so a.b's ints must be elsewhere
    assert assign([Attribute("record", "a.b", kind) for kind in ("int", "string")]) == {
        Attribute("record", "a.b", "string"): "attr_a_b",
        Attribute("record", "a.b", "int"): "attr_a_b__int",
    }
    for seed in range(20):
        shuffled = random.Random(seed).sample(attributes, len(attributes))
        assert assign(shuffled) == names


def test_streams() -> None:
    decoded = decode(sample())
    assert set(decoded.streams.values()) == {(("service_name", "web"),), (("service_name", "api"),)}
    assert set(decoded.table["chq_stream_id"].to_pylist()) == set(decoded.streams)
    assert all(stream_id(labels) == identity for identity, labels in decoded.streams.items())


def test_a_resource_without_service_name_is_unknown_service() -> None:
    request, _ = one_record()
    request.resource_logs[0].resource.attributes.add(key="service.name").value.string_value = ""
    request.resource_logs[0].resource.attributes.add(key="k8s.pod.name").value.string_value = "p"
    assert list(decode(request).streams.values()) == [
        (("k8s_pod_name", "p"), ("service_name", "unknown_service"))
    ]


@pytest.mark.parametrize(
    ("time", "observed", "expected", "note"),
    [
        (5, 6, 5, None),
        (0, 6, 6, "time_from_observed"),
        (0, 0, 77, "time_from_arrival"),
        (2**63, 0, 2**63 - 1, "time_after_2262"),
    ],
)
def test_time(time: int, observed: int, expected: int, note: str | None) -> None:
    request, record = one_record()
    record.time_unix_nano, record.observed_time_unix_nano = time, observed
    decoded = decode(request)
    assert decoded.table["chq_tsns"].to_pylist() == [expected]
    assert decoded.notes.get(note, 0) == (0 if note is None else 1) if note else not decoded.notes


def test_invalid_utf8_is_repaired_and_counted_and_neighbours_are_untouched() -> None:
    request = sample(4)
    payload = request.SerializeToString().replace(b"user 0 logged", b"user \xff logged", 1)
    payload = payload.replace(b"Information", b"Informati\xc3n", 1)
    decoded = decode_logs(payload, object_id=1, first_position=0, arrival_ns=1)
    messages = decoded.table["log_message"].to_pylist()
    assert messages[0].startswith("user \ufffd logged")
    assert messages[1:] == [m for _, m in zip(range(3), ["user 1 logged in from 10.0.0.1", "user 0 logged in from 10.0.0.0", "user 1 logged in from 10.0.0.1"], strict=True)]  # fmt: skip  # noqa: E501
    assert decoded.notes["invalid_utf8"] == 2
    decoded.table.validate(full=True)


def test_ids_of_wrong_length_are_absent_and_counted() -> None:
    request, record = one_record()
    record.trace_id, record.span_id = b"short", bytes(8)
    decoded = decode(request)
    assert decoded.table["trace_id"].to_pylist() == decoded.table["span_id"].to_pylist() == [None]
    assert decoded.notes == {"time_from_arrival": 1, "time_from_observed": 0, "invalid_trace_id": 1}


def test_levels_from_text_and_from_the_line() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    cases = [
        (13, "x", "", "WARN", "warn"),
        (0, "warning", "", "WARN", "warn"),
        (0, "Audit", "all well", "AUDIT", "unknown"),
        (0, "", "an error, not errors", None, "error"),
        (0, "", "errors and infos", None, "unknown"),
        (0, "", "INFO then DEBUG", None, "debug"),
        (0, "", "CRITICAL", None, "critical"),
        (0, "", "x_error err1", None, "unknown"),
        (99, "", "", None, "unknown"),
    ]
    for number, text, line, _, _ in cases:
        record = records.add(severity_number=number, severity_text=text, time_unix_nano=1)
        record.body.string_value = line
    table = decode(request).table
    assert table["log_level"].to_pylist() == [case[3] for case in cases]
    assert table["detected_level"].to_pylist() == [case[4] for case in cases]


def test_rare_and_repeated_keys_overflow_in_text_form() -> None:
    request = sample(4)
    record = request.resource_logs[1].scope_logs[0].log_records[0]
    record.attributes.add(key="duration").value.double_value = 2.5
    record.attributes.add(key="rare").value.int_value = -7
    scanned = scan_slice(np.frombuffer(request.SerializeToString(), np.uint8), 0, request.ByteSize())
    notes: Counter[str] = Counter()
    columns = attribute_columns(
        scanned.data, fields.attributes_of(scanned.attributes), 4, "record", notes, max_columns=6
    )
    assert len(columns.columns) == 6
    assert columns.overflow.to_pylist() == [None, None, [("duration", "2.5"), ("rare", "-7")], None]
    assert notes == {"repeated_attribute_keys": 1, "attributes_in_overflow": 2}


def test_text_in_structured_values_is_escaped_as_json_demands() -> None:
    request, record = one_record()
    texts = ['"q" \\ /', "\b\t\n\f\r\x00\x1f\x7f", "größe 🎉 \u2028", "", "x" * 300]
    for text in texts:
        record.body.array_value.values.add().string_value = text
    for number in (0, -1, 2**63 - 1, -(2**63), 10**18, 9, 10, 99, 100):
        record.body.array_value.values.add().int_value = number
    message = decode(request).table["log_message"][0].as_py()
    assert json.loads(message) == [*texts, 0, -1, 2**63 - 1, -(2**63), 10**18, 9, 10, 99, 100]


@pytest.mark.parametrize("size", range(10))
def test_base64(size: int) -> None:
    request, record = one_record()
    record.body.bytes_value = bytes(range(250, 250 + min(size, 6))) + bytes(max(0, size - 6))
    assert decode(request).table["log_message"][0].as_py() == b64encode(record.body.bytes_value).decode()


def test_rows_can_be_masked_and_sliced() -> None:
    table = decode(sample()).table
    kept = table.filter(pa.array([index % 3 == 0 for index in range(table.num_rows)]))
    assert kept["chq_position"].to_pylist() == table["chq_position"].to_pylist()[::3]
    assert kept.to_pylist() == table.to_pylist()[::3]
    assert kept.schema.equals(table.schema, check_metadata=True)
