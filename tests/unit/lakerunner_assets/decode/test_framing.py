"""Cutting a payload into bounded requests loses nothing, changes nothing, and says where it was broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from lakerunner_assets.decode.errors import DecodeError, MalformedError, TooLargeError
from lakerunner_assets.decode.otlp import framing
from lakerunner_assets.decode.otlp.framing import slices
from lakerunner_assets.decode.payload import open_payload, payload_of


def request(resources: int, scopes: int, records: int) -> ExportLogsServiceRequest:
    made = ExportLogsServiceRequest()
    number = 0
    for r in range(resources):
        group = made.resource_logs.add(schema_url=f"r{r}")
        group.resource.attributes.add(key="service.name").value.string_value = f"svc{r}"
        for s in range(scopes):
            scope = group.scope_logs.add(schema_url=f"s{s}")
            scope.scope.name = f"scope{s}"
            for _ in range(records):
                scope.log_records.add(time_unix_nano=number).body.string_value = f"line {number}"
                number += 1
    return made


def flat(messages: list[ExportLogsServiceRequest]) -> list[tuple[str, str, str, str, str]]:
    """Every record with all that it inherits."""
    return [
        (
            group.resource.attributes[0].value.string_value,
            group.schema_url,
            scope.scope.name,
            scope.schema_url,
            record.body.string_value,
        )
        for message in messages
        for group in message.resource_logs
        for scope in group.scope_logs
        for record in scope.log_records
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 5), st.integers(1, 2000))
def test_any_slice_size_gives_the_same_records_with_their_owners(
    resources: int, scopes: int, records: int, size: int
) -> None:
    whole = request(resources, scopes, records)
    data = whole.SerializeToString()
    parts = [ExportLogsServiceRequest.FromString(part.data) for part in slices(payload_of(data), size)]
    assert flat(parts) == flat([whole])


def test_slices_are_bounded_even_when_one_resource_holds_everything() -> None:
    data = request(1, 1, 2000).SerializeToString()
    parts = list(slices(payload_of(data), 4096))
    assert len(parts) > 5
    assert max(len(part.data) for part in parts) < 4096 + 200


def test_a_payload_that_fits_is_not_copied() -> None:
    data = request(2, 1, 3).SerializeToString()
    (part,) = slices(payload_of(data), len(data))
    assert part.data is data


def test_a_record_larger_than_the_limit_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_RECORD_BYTES", 1000)
    made = request(1, 1, 3)
    made.resource_logs[0].scope_logs[0].log_records[1].body.string_value = "x" * 5000
    data = made.SerializeToString()
    with pytest.raises(TooLargeError, match="one record of") as caught:
        list(slices(payload_of(data), 500))
    assert abs(caught.value.offset - data.index(b"xxx")) < 40


def test_a_length_that_runs_past_the_end_is_told_with_its_offset() -> None:
    data = request(3, 1, 2).SerializeToString()
    first = data.index(b"svc1")
    broken = data[: first + 40]
    with pytest.raises(MalformedError, match="length runs past the end"):
        list(slices(payload_of(broken), 30))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 64))
def test_arbitrary_bytes_never_crash_and_always_end(data: bytes, size: int) -> None:
    try:
        total = sum(len(part.data) for part in slices(payload_of(data), size))
    except DecodeError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017
    else:
        assert total <= 40 * len(data) + 40


@pytest.mark.parametrize("in_file", [False, True])
def test_files_and_memory_are_cut_alike(tmp_path: Path, in_file: bool) -> None:
    data = request(5, 2, 7).SerializeToString()
    source = tmp_path / "object"
    source.write_bytes(data)
    with open_payload(source if in_file else data, 1 << 20) as payload:
        parts = [ExportLogsServiceRequest.FromString(part.data) for part in slices(payload, 300)]
    assert flat(parts) == flat([request(5, 2, 7)])
