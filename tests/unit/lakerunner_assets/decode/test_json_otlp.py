"""OTLP JSON against the protobuf runtime's own JSON reader, for messages of all three signals."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakerunner_assets.decode.dispatch import Place, Request, SliceDecoder
from lakerunner_assets.decode.json.otlp import decode_otlp_json, requests
from lakerunner_assets.decode.json.schema_kernels import ENUMS, FIELDS, camel
from lakerunner_assets.decode.otlp.logs import decode_logs
from lakerunner_assets.decode.otlp.metrics import decode_metrics
from lakerunner_assets.decode.otlp.traces import decode_traces
from lakerunner_assets.decode.payload import payload_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from tests.support.corpora import CORPORA

ROOTS: dict[Signal, Any] = {
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
    Signal.TRACES: ExportTraceServiceRequest,
}
DECODERS: dict[Signal, SliceDecoder] = {
    Signal.LOGS: decode_logs,
    Signal.METRICS: decode_metrics,
    Signal.TRACES: decode_traces,
}
LISTS = {"resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS, "resourceSpans": Signal.TRACES}
IDS = {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: _TEXT | st.sampled_from(['"\\', "\n\t\x01\x7f", "\U0001f600é", "a" * 130]),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20) | st.binary(min_size=16, max_size=16),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(width=64) | st.sampled_from([0.1, -0.0, 5e-324, 1e23, 1.5e300]),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SFIXED64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: st.integers(0, 2**64 - 1),
}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, depth: int = 0) -> Any:
    """Any message of a type: every field may be set, nesting ends by itself."""
    message = GetMessageClass(descriptor)()
    fields = st.sampled_from(list(descriptor.fields))
    for field in draw(st.lists(fields, min_size=depth < 7, max_size=6, unique_by=lambda f: f.name)):
        if field.type == FieldDescriptor.TYPE_MESSAGE and depth >= 9:
            continue
        for _ in range(draw(st.integers(1, 3)) if field.is_repeated else 1):
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                value = draw(messages(field.message_type, depth + 1))
                target = getattr(message, field.name)
                target.append(value) if field.is_repeated else target.CopyFrom(value)
                continue
            scalar = (
                st.sampled_from([value.number for value in field.enum_type.values]) | st.just(77)
                if field.type == FieldDescriptor.TYPE_ENUM
                else _SCALARS[field.type]
            )
            value = draw(scalar)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def with_ids(node: Any, convert: Any) -> Any:
    if isinstance(node, list):
        return [with_ids(inner, convert) for inner in node]
    if not isinstance(node, dict):
        return node
    return {
        key: convert(value) if key in IDS and isinstance(value, str) else with_ids(value, convert)
        for key, value in node.items()
    }


def to_hex(document: Any) -> Any:
    return with_ids(document, lambda text: b64decode(text).hex())


def to_base64(document: Any) -> Any:
    return with_ids(document, lambda text: b64encode(bytes.fromhex(text)).decode())


def transcoded(text: bytes, signal: Signal, slice_bytes: int = 1 << 24) -> list[bytes]:
    return [part.data for part in requests(payload_of(text), signal, slice_bytes, Counter())]


def read(text: bytes, signal: Signal, slice_bytes: int = 1 << 24) -> Any:
    """What the protobuf runtime sees in what we wrote."""
    return ROOTS[signal].FromString(b"".join(transcoded(text, signal, slice_bytes)))


def expected(document: Any, signal: Signal) -> Any:
    return json_format.ParseDict(to_base64(document), ROOTS[signal](), ignore_unknown_fields=True)


def same(left: Any, right: Any) -> bool:
    """Equal bytes: unlike equality of messages also true of NaN."""
    return bool(left.SerializeToString(deterministic=True) == right.SerializeToString(deterministic=True))


@pytest.mark.parametrize("signal", list(ROOTS))
def test_generated_messages(signal: Signal) -> None:
    @given(messages(ROOTS[signal].DESCRIPTOR), st.booleans(), st.booleans(), st.sampled_from([None, 1]))
    @QUICK
    def check(message: Any, snake: bool, numbers: bool, indent: int | None) -> None:
        document = to_hex(
            json_format.MessageToDict(
                message, preserving_proto_field_name=snake, use_integers_for_enums=numbers
            )
        )
        text = json.dumps(document, indent=indent, ensure_ascii=indent is None)
        assert same(read(text.encode(), signal), expected(document, signal))

    check()


def test_the_table_of_messages_is_protobufs() -> None:
    known: dict[str, Descriptor] = {}
    for root, name in zip(ROOTS.values(), ("LogsRequest", "MetricsRequest", "TraceRequest"), strict=True):
        _collect(root.DESCRIPTOR, name, known)
    theirs = {
        (owner, field.number, _type_name(field), field.is_repeated, field.name)
        for owner, descriptor in known.items()
        for field in descriptor.fields
    }
    assert {tuple(field) for field in FIELDS if field.type != "other"} == theirs
    for descriptor in known.values():
        for field in descriptor.fields:
            assert camel(field.name) == field.json_name
            if field.enum_type:
                names = [value.name for value in sorted(field.enum_type.values, key=lambda v: v.number)]
                assert list(ENUMS[field.enum_type.name]) == names


def _collect(descriptor: Descriptor, name: str, known: dict[str, Descriptor]) -> None:
    if name not in known:
        known[name] = descriptor
        for field in descriptor.fields:
            if field.message_type:
                _collect(field.message_type, field.message_type.name, known)


def _type_name(field: FieldDescriptor) -> str:
    if field.message_type:
        return str(field.message_type.name)
    if field.enum_type:
        return str(field.enum_type.name)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "id" if field.name in IDS else "bytes"
    names = {
        getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
        for name in dir(FieldDescriptor)
        if name.startswith("TYPE_")
    }
    return names[field.type]


def corpus() -> Iterator[tuple[str, Signal, Any]]:
    folder = CORPORA / "otlp"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine")
    yaml = pytest.importorskip("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted([*folder.glob("proto/*.json"), *folder.glob("contrib/*.y*ml")]):
        raw = path.read_text()
        document = json.loads(raw) if path.suffix == ".json" else yaml.load(raw, loader)
        for name, signal in LISTS.items():
            if isinstance(document, dict) and name in document:
                yield path.name, signal, document


def test_every_file_of_the_corpora() -> None:
    """YAML turned values of two files into dates, which JSON lacks: they say nothing."""
    read_files: Counter[Signal] = Counter()
    refused = []
    for name, signal, document in corpus():
        try:
            want = expected(document, signal)
            text = json.dumps(document).encode()
        except (json_format.ParseError, ValueError, TypeError):
            refused.append(name)
            continue
        assert same(read(text, signal), want), name
        read_files[signal] += 1
    assert sum(read_files.values()) > 700, (read_files, refused)
    assert min(read_files.values()) > 40, read_files


def test_tables_are_those_of_the_protobuf() -> None:
    place, options = Place(3, 0, 1_700_000_000_000_000_000), DecodeOptions()
    compared: Counter[Signal] = Counter()
    for name, signal, document in corpus():
        try:
            wire = expected(document, signal).SerializeToString()
            text = json.dumps(document).encode()
        except (json_format.ParseError, ValueError, TypeError):
            continue
        if compared[signal] >= 60:
            continue
        decoder = decode_otlp_json(signal, DECODERS[signal])
        (found,) = decoder(payload_of(text), Request("x", place, options, 1 << 24))
        want = DECODERS[signal](wire, place, options)
        assert found.table.equals(want.table), name
        assert found.table.schema.equals(want.table.schema, check_metadata=True), name
        assert (found.notes, found.rejected) == (want.notes, want.rejected), name
        compared[signal] += 1
    assert min(compared[signal] for signal in ROOTS) > 40, compared
