r"""The schema of OTLP in JSON, exactly as narrow as the decoders need it.

An object holds the requests of many senders, and one value that its decoder cannot read would cost all of
them. So everything accepted here must be decodable. Names are lowerCamelCase; a resource that has names of
the .proto files as well is checked by `NAMED_BOTH_WAYS`. 64-bit integers are numbers or texts of digits, ids
are hexadecimal, null stands for a member left out, unknown members are ignored.

The table lists every field a decoder reads, as `name type`, `[]` for lists; a test compares it with theirs.
"""

from __future__ import annotations

from typing import Annotated, Any, ForwardRef, Literal, Optional

import msgspec
from msgspec import Meta

from resources.lake.layout import Signal
from resources.lake.signals import FACTS

TABLE = """
ResourceLogs: resource Resource; scope_logs ScopeLogs[]; schema_url string
ResourceMetrics: resource Resource; scope_metrics ScopeMetrics[]; schema_url string
ResourceSpans: resource Resource; scope_spans ScopeSpans[]; schema_url string
ScopeLogs: scope InstrumentationScope; log_records LogRecord[]; schema_url string
ScopeMetrics: scope InstrumentationScope; metrics Metric[]; schema_url string
ScopeSpans: scope InstrumentationScope; spans Span[]; schema_url string
Resource: attributes KeyValue[]; dropped_attributes_count uint32; entity_refs EntityRef[]
EntityRef: schema_url string; type string; id_keys string[]; description_keys string[]
InstrumentationScope: name string; version string; attributes KeyValue[]; dropped_attributes_count uint32
KeyValue: key string; value AnyValue; key_strindex int32
AnyValue: string_value string; bool_value bool; int_value int64; double_value double;
    array_value ArrayValue; kvlist_value KeyValueList; bytes_value bytes; string_value_strindex int32
ArrayValue: values AnyValue[]
KeyValueList: values KeyValue[]
LogRecord: time_unix_nano uint64; observed_time_unix_nano uint64; severity_number SeverityNumber;
    severity_text string; body AnyValue; attributes KeyValue[]; dropped_attributes_count uint32;
    flags uint32; trace_id id; span_id id; event_name string
Metric: name string; description string; unit string; gauge Gauge; sum Sum; histogram Histogram;
    exponential_histogram ExponentialHistogram; summary Summary; metadata KeyValue[]
Gauge: data_points NumberDataPoint[]
Sum: data_points NumberDataPoint[]; aggregation_temporality AggregationTemporality; is_monotonic bool
Histogram: data_points HistogramDataPoint[]; aggregation_temporality AggregationTemporality
ExponentialHistogram: data_points ExponentialHistogramDataPoint[];
    aggregation_temporality AggregationTemporality
Summary: data_points SummaryDataPoint[]
NumberDataPoint: attributes KeyValue[]; start_time_unix_nano uint64; time_unix_nano uint64;
    as_double double; as_int int64; exemplars Exemplar[]; flags uint32
HistogramDataPoint: attributes KeyValue[]; start_time_unix_nano uint64; time_unix_nano uint64;
    count uint64; sum double; bucket_counts uint64[]; explicit_bounds double[]; exemplars Exemplar[];
    flags uint32; min double; max double
ExponentialHistogramDataPoint: attributes KeyValue[]; start_time_unix_nano uint64; time_unix_nano uint64;
    count uint64; sum double; scale int32; zero_count uint64; positive Buckets; negative Buckets;
    flags uint32; exemplars Exemplar[]; min double; max double; zero_threshold double
Buckets: offset int32; bucket_counts uint64[]
SummaryDataPoint: attributes KeyValue[]; start_time_unix_nano uint64; time_unix_nano uint64;
    count uint64; sum double; quantile_values ValueAtQuantile[]; flags uint32
ValueAtQuantile: quantile double; value double
Exemplar: filtered_attributes KeyValue[]; time_unix_nano uint64; as_double double; as_int int64;
    span_id id; trace_id id
Span: trace_id id; span_id id; trace_state string; parent_span_id id; flags uint32; name string;
    kind SpanKind; start_time_unix_nano uint64; end_time_unix_nano uint64; attributes KeyValue[];
    dropped_attributes_count uint32; events Event[]; dropped_events_count uint32; links Link[];
    dropped_links_count uint32; status Status
Event: time_unix_nano uint64; name string; attributes KeyValue[]; dropped_attributes_count uint32
Link: trace_id id; span_id id; trace_state string; attributes KeyValue[]; dropped_attributes_count uint32;
    flags uint32
Status: message string; code StatusCode
"""
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
ENUMS: dict[str, tuple[str, ...]] = {
    "SeverityNumber": (
        "SEVERITY_NUMBER_UNSPECIFIED",
        *(f"SEVERITY_NUMBER_{level}{step}" for level in _LEVELS for step in ("", "2", "3", "4")),
    ),
    "AggregationTemporality": tuple(
        f"AGGREGATION_TEMPORALITY_{name}" for name in ("UNSPECIFIED", "DELTA", "CUMULATIVE")
    ),
    "SpanKind": tuple(
        f"SPAN_KIND_{name}"
        for name in ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
    ),
    "StatusCode": ("STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"),
}


def _up_to(most: int) -> str:
    r"""Return a pattern of the decimal numbers from 0 to `most`, as JSON writes them.

    >>> _up_to(31)
    '0|[1-9][0-9]{0,0}|[1-2][0-9]{1}|3[0-0][0-9]{0}|31'
    """
    digits = str(most)
    parts = ["0", f"[1-9][0-9]{{0,{len(digits) - 2}}}"]
    for at, digit in enumerate(digits):
        least = 1 if at == 0 else 0
        if int(digit) > least:
            parts.append(f"{digits[:at]}[{least}-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}")
    return "|".join([*parts, digits])


def _integer(least: int, most: int) -> Any:
    r"""Return the type of an integer; beyond int64 only text is valid.

    The pattern ends with `\Z` because `$` would also match before a newline.
    """
    negative = f"|-(?:{_up_to(-least)})" if least else ""
    text = Meta(pattern=rf"^(?:{_up_to(most)}{negative})\Z")
    return Annotated[int, Meta(ge=least, le=min(most, 2**63 - 1))] | Annotated[str, text]


def _enum(names: tuple[str, ...]) -> Any:
    known: Any = Literal.__getitem__((*names, *(str(number) for number in range(len(names)))))
    return Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | known


_DOUBLE = (
    r"^(?:NaN|-?Infinity|-?(?:0|[1-9][0-9]{0,307})(?:\.[0-9]{1,400})?"
    r"|-?[0-9](?:\.[0-9]{1,400})?[eE](?:-[0-9]{1,3}|\+?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])))\Z"
)
"""Pattern of doubles in text, none of them too large for a double."""

_TYPES: dict[str, Any] = {
    "string": str,
    "bool": bool,
    "bytes": bytes,
    "double": float | Annotated[str, Meta(pattern=_DOUBLE)],
    "id": Annotated[str, Meta(pattern=r"^(?:[0-9a-fA-F]{2}){0,64}\Z")],
    "int32": _integer(-(2**31), 2**31 - 1),
    "int64": _integer(-(2**63), 2**63 - 1),
    "uint32": _integer(0, 2**32 - 1),
    "uint64": _integer(0, 2**64 - 1),
} | {name: _enum(names) for name, names in ENUMS.items()}


def fields_of(table: str = TABLE) -> dict[str, list[tuple[str, str]]]:
    """Parse the table into the fields of each message.

    >>> fields_of("Sum: data_points Point[]; is_monotonic bool")
    {'Sum': [('data_points', 'Point[]'), ('is_monotonic', 'bool')]}
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for line in table.strip().replace("\n    ", " ").splitlines():
        owner, _, fields = line.partition(": ")
        found[owner] = [(name, type_) for name, type_ in (field.split() for field in fields.split(";"))]
    return found


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _decoders(both: bool) -> dict[Signal, msgspec.json.Decoder[Any]]:
    """Build the decoders; with `both`, fields may be named in snake_case too, under the same rules."""
    messages = fields_of()
    for owner, fields in messages.items():
        members: list[tuple[str, Any, Any]] = []
        names: dict[str, str] = {}
        for name, written in fields:
            type_ = _annotation(written, both)
            members.append((name, type_, None))
            names[name] = _camel(name)
            if both and "_" in name:
                members.append((f"{name}_", type_, None))
                names[f"{name}_"] = name
        title = f"{owner}_{both}"
        globals()[title] = msgspec.defstruct(title, members, module=__name__, rename=names, gc=False)
    return {
        signal: msgspec.json.Decoder(globals()[f"{facts.otlp_root}_{both}"])
        for signal, facts in FACTS.items()
    }


def _annotation(written: str, both: bool) -> Any:
    """Return a field's type; messages are named, since they hold each other.

    A list may be null, but not its elements.
    """
    plain = written.removesuffix("[]")
    inner: Any = _TYPES.get(plain, ForwardRef(f"{plain}_{both}"))
    return Optional[list[inner] if written.endswith("[]") else inner]  # noqa: UP045 - of a value, not a type


CAMEL_ONLY = _decoders(both=False)
NAMED_BOTH_WAYS = _decoders(both=True)
"""Decoders for both spellings: structs of twice the size, so only for text with such names."""
