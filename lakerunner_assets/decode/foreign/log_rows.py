"""Foreign log records become the decoded table of logs (otlp/logs.py lists its columns).

    {"time": "2026-01-02T03:04:05Z", "lvl": "warn", "msg": "slow", "app": "web", "ms": 12}
      event time 1767323045000000000 | log_level WARN, log_severity_text warn | log_message slow |
      resource service.name web | attribute ms 12 | stream {service_name="web", level="warn"}

Stream labels are service_name, the normalised level in lower case, and columns named like one of the
organisation's index attributes. An integer level is kept as it is: pino's 30 and Python's 30 differ. Columns
called severity_number hold OTLP's numbers. A row without a message is shown as its fields, in logfmt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.attributes import stream_columns
from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.field_kernels import KINDS
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.decode.foreign.attributes import record_attributes
from lakerunner_assets.decode.foreign.ids import role_ids
from lakerunner_assets.decode.foreign.mapping import Fields, Mask, fields_of, valid
from lakerunner_assets.decode.foreign.streams import lower, streams_of
from lakerunner_assets.decode.foreign.times import role_times
from lakerunner_assets.decode.foreign.values import (
    role_codes,
    role_text,
    text_of,
    with_dictionary,
    without_dictionary,
    without_nulls,
)
from lakerunner_assets.decode.json.lines import RawRows
from lakerunner_assets.decode.levels import detect_levels, levels
from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.decode.otlp.owners import FlatColumn, assemble, nullable, without_empty
from resources.arrays import Int32s
from resources.lake.columns import (
    CHQ_BODY_KIND,
    CHQ_FINGERPRINT,
    CHQ_OBJECT,
    CHQ_OBSERVED_TSNS,
    CHQ_POSITION,
    CHQ_STREAM,
    CHQ_STREAM_ID,
    CHQ_TSNS,
    dropped_attributes,
)
from resources.lake.options import DecodeOptions

UNREADABLE_TIME, TIME_FROM_DATE, TIME_FROM_ARRIVAL = "unreadable_time", "time_from_date", "time_from_arrival"
MESSAGE_FROM_FIELDS = "message_from_fields"
_NOT_A_NAME = re.compile(r'[\s"=]')
_SEVERITIES = {str(number): number for number in range(1, 25)}
_TEXT = pa.dictionary(pa.int32(), pa.string())


def log_table(rows: RawRows, place: Place, options: DecodeOptions) -> DecodedSlice:
    """Decode the records of one window."""
    notes: Counter[str] = Counter(rows.notes)
    fields = fields_of(rows, "logs", options.fields)
    columns = dict(_times(fields, place.arrival_ns, notes))
    columns |= row_ids(rows, place)
    severity = _severity_numbers(fields)
    severity_text = role_codes(fields, "level")
    level = levels(severity, severity_text)
    columns["log_level"] = level
    columns["log_severity_number"] = pa.array(severity)
    columns["log_severity_text"] = without_empty(severity_text)
    body, kinds = role_text(fields, "message")
    trace_id = role_ids(fields, "trace_id", 16, "invalid_trace_id", notes)
    span_id = role_ids(fields, "span_id", 8, "invalid_span_id", notes)
    service, flat = service_attribute(fields)
    message = _messages(without_dictionary(body), fields, notes)
    columns["log_message"] = message
    columns[CHQ_BODY_KIND] = pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), pa.array(KINDS))
    columns["detected_level"] = detect_levels(level, message)
    columns[CHQ_FINGERPRINT] = pa.array(fingerprints(message))
    columns["trace_id"], columns["span_id"] = trace_id, span_id
    columns |= _absent(rows.count)
    streams = streams_of(rows, [("service_name", service), ("level", lower(level))], options.index_attributes)
    every_row = np.arange(rows.count, dtype=np.int32)
    columns[CHQ_STREAM_ID], columns[CHQ_STREAM] = stream_columns(streams, every_row)
    flat += record_attributes(fields, notes)
    known = dict(zip(streams.ids, streams.labels, strict=True))
    return DecodedSlice(
        assemble(columns, flat),
        rows.rejected,
        dict(notes),
        first_rejected=rows.first_rejected,
        streams=known,
        roles=fields.used(),
    )


def row_ids(rows: RawRows, place: Place) -> dict[str, pa.Array]:
    """Return the object and the ordinal of each row in the file, unreadable rows counted."""
    return {
        CHQ_OBJECT: pa.array(np.full(rows.count, place.object_id, np.int64)),
        CHQ_POSITION: pa.array(rows.line_of_row + place.first_position),
    }


def service_attribute(fields: Fields) -> tuple[pa.DictionaryArray, list[FlatColumn]]:
    """Return the service of each row ('' for none), also as resource attribute `service.name`."""
    service = with_dictionary(role_text(fields, "service")[0])
    flat: list[FlatColumn] = []
    if service.null_count < len(service):
        flat.append(("resource", Attribute("resource", "service.name", "string"), service))
    return without_nulls(service), flat


def _messages(body: pa.StringArray, fields: Fields, notes: Counter[str]) -> pa.StringArray:
    """Return the message of each row; a row that has none is shown as its fields."""
    if not body.null_count:
        return body
    lines = field_lines(fields)
    _count(notes, MESSAGE_FROM_FIELDS, ~valid(body) & (pc.binary_length(lines).to_numpy() > 0))
    return pc.coalesce(body, lines)


def field_lines(fields: Fields) -> pa.StringArray:
    """Write the values that no role took as logfmt, ordered by name; '' where there are none.

    {"user": "ann b", "status": 200}  →  status=200 user="ann b"
    """
    pieces = [
        pc.binary_join_element_wise(_NOT_A_NAME.sub("_", name), _quoted(text_of(kind, column)), "=")
        for (name, kind), column in sorted(fields.rest(), key=lambda item: item[0])
    ]
    # the empty piece in front, because Arrow drops a row of which nothing is left
    nothing = pa.array([""] * fields.count, pa.string())
    return pc.utf8_ltrim(pc.binary_join_element_wise(nothing, *pieces, " ", null_handling="skip"), " ")


def _quoted(text: pa.Array) -> pa.StringArray:
    """Quote values with anything in them that would end a value."""
    plain = without_dictionary(text)
    odd = pc.match_substring_regex(plain, r'[\s"=\\]|^$')
    if not pc.any(odd).as_py():
        return plain
    escaped = plain
    for found, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        escaped = pc.replace_substring(escaped, found, written)
    return pc.if_else(odd, pc.binary_join_element_wise('"', escaped, '"', ""), plain)


def _times(fields: Fields, arrival_ns: int, notes: Counter[str]) -> Iterator[tuple[str, pa.Array]]:
    """Take the time, else the observed time, else the arrival; count every fallback."""
    time = role_times(fields, "timestamp")
    observed = role_times(fields, "observed_timestamp")
    _count(notes, UNREADABLE_TIME, time.unreadable | observed.unreadable)
    _count(notes, "time_from_observed", ~time.known & observed.known)
    _count(notes, TIME_FROM_DATE, time.from_date)
    _count(notes, TIME_FROM_ARRIVAL, ~time.known & ~observed.known)
    yield (
        CHQ_TSNS,
        pa.array(np.where(time.known, time.ns, np.where(observed.known, observed.ns, arrival_ns))),
    )
    yield CHQ_OBSERVED_TSNS, nullable(observed.ns, ~observed.known)


def _count(notes: Counter[str], note: str, rows: Mask) -> None:
    if rows.any():
        notes[note] += int(rows.sum())


def _severity_numbers(fields: Fields) -> Int32s:
    """Read OTLP's 1 to 24, 0 for none; another number stays an attribute."""
    severity = np.zeros(fields.count, np.int32)
    for key, column in fields.candidates("severity_number"):
        if key[1] not in {"int", "string"}:
            continue
        texts = with_dictionary(text_of(key[1], column))
        words = [_SEVERITIES.get(word, 0) for word in texts.dictionary.to_pylist()]
        found = np.array([*words, 0], np.int32)[texts.indices.fill_null(len(words)).to_numpy()]
        chosen = (found > 0) & (severity == 0)
        severity[chosen] = found[chosen]
        fields.take(key, chosen)
    return severity


def _absent(count: int) -> dict[str, pa.Array]:
    """Fill the columns that only OTLP has, as when they are not sent."""
    zeros, nothing = pa.array(np.zeros(count, np.int64)), pa.nulls(count, _TEXT)
    return {
        "log_flags": zeros,
        "event_name": nothing,
        **{dropped_attributes(owner): zeros for owner in ("", "resource_", "scope_")},
        **dict.fromkeys(("scope_name", "scope_version", "scope_schema_url", "resource_schema_url"), nothing),
    }
