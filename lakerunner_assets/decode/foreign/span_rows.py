"""Foreign spans become the decoded table of traces (otlp/traces.py lists its columns).

    {"traceId": "5b8e…", "spanId": "051…", "name": "GET /", "startTime": 1767323045000, "durationMs": 12}
      span_trace_id, span_id, span_name GET / | start …045.000 | end …045.012 | duration 12 000 000

A span's start is its start, else its timestamp, else its end less its duration, else its arrival. Kinds and
status codes are OTLP's words in any spelling or their numbers; other words stay attributes. Lists of events
and links have as many shapes as there are producers: they stay attributes too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.attributes import stream_columns
from lakerunner_assets.decode.dispatch import DecodedSlice, Place
from lakerunner_assets.decode.foreign.attributes import record_attributes
from lakerunner_assets.decode.foreign.ids import role_ids
from lakerunner_assets.decode.foreign.log_rows import (
    TIME_FROM_ARRIVAL,
    TIME_FROM_DATE,
    UNREADABLE_TIME,
    row_ids,
    service_attribute,
)
from lakerunner_assets.decode.foreign.mapping import Fields, Mask, comparable, fields_of
from lakerunner_assets.decode.foreign.numbers import read_numbers
from lakerunner_assets.decode.foreign.streams import streams_of
from lakerunner_assets.decode.foreign.times import RoleTimes, role_times
from lakerunner_assets.decode.foreign.values import role_text, text_of, with_dictionary, without_dictionary
from lakerunner_assets.decode.json.lines import RawRows
from lakerunner_assets.decode.otlp.owners import LAST_NS, assemble, nullable
from lakerunner_assets.decode.otlp.traces import KIND_NAMES, STATUS_NAMES
from resources.arrays import Int64s
from resources.lake.columns import (
    CHQ_DROPPED_ATTRIBUTES,
    CHQ_DROPPED_EVENTS,
    CHQ_DROPPED_LINKS,
    CHQ_RESOURCE_DROPPED_ATTRIBUTES,
    CHQ_SCOPE_DROPPED_ATTRIBUTES,
    CHQ_STREAM,
    CHQ_STREAM_ID,
)
from resources.lake.options import DecodeOptions
from resources.lake.streams import UNKNOWN_SERVICE

_UNITS = {
    1: ("ns", "nano", "nanos", "nanoseconds"),
    1000: ("us", "µs", "micro", "micros", "microseconds"),
    1_000_000: ("ms", "milli", "millis", "milliseconds"),
    1_000_000_000: ("s", "sec", "secs", "seconds"),
}
_NS = {word: factor for factor, words in _UNITS.items() for word in words}
_LONG = {"m": 60 * 10**9, "h": 3600 * 10**9}
_NAMED = re.compile(rf"(?:_|^duration)({'|'.join(_NS)})$")
_PART = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)\s*+(ns|us|µs|μs|ms|s|m|h)\s*+")
_MAX_TEXT = 64
_LAST = 2**63 - 1


def unit_of(name: str) -> int | None:
    """Return the nanoseconds per unit that a column's name says.

    `duration_ms: 12.5` and `durationMicros: 12500` name one; without a unit a plain number is nanoseconds.

    >>> unit_of("duration_ms"), unit_of("durationMicros"), unit_of("duration"), unit_of("http.seconds")
    (1000000, 1000, None, 1000000000)
    """
    found = _NAMED.search(comparable(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))
    return _NS[found.group(1)] if found else None


def read_durations(kind: str, column: pa.Array, unit: int) -> tuple[Int64s, Mask]:
    """Read nanoseconds, and which rows hold a duration that is not negative and fits."""
    numbers = read_numbers(kind, column)
    scaled = numbers.double * unit
    known = numbers.known & (numbers.double >= 0) & (scaled < float(_LAST))
    exact = np.where(numbers.is_int & known, numbers.integer, 0) * unit
    ns = np.where(numbers.is_int, exact, np.rint(np.where(known, scaled, 0.0)).astype(np.int64))
    if kind != "string" or numbers.known.all():
        return ns, known
    texts = with_dictionary(column)
    parsed = [_parse(word) for word in texts.dictionary.to_pylist()]
    values = np.array([*(-1 if value is None else value for value in parsed), -1], np.int64)
    written = values[texts.indices.fill_null(len(parsed)).to_numpy()]
    return np.where(written >= 0, written, ns), known | (written >= 0)


def _parse(text: str) -> int | None:
    """Parse a length with units as Go and Java write it; None when it is none.

    >>> _parse("1m2.5s"), _parsed("12 ms"), _parsed("12"), _parsed("soon")
    (62500000000, 12000000, None, None)
    """
    text = text.strip()
    parts = _PART.findall(text) if len(text) <= _MAX_TEXT else []
    if not parts or not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        return None
    factors = {**_NS, **_LONG, "μs": 1000}
    total = int(sum(Decimal(number) * factors[unit] for number, unit in parts))
    return total if total <= _LAST else None


NO_END, WRONG_WAY, NO_UNIT = "span_without_end", "span_ends_before_start", "duration_without_unit"
_TEXT = pa.dictionary(pa.int32(), pa.string())


def span_table(rows: RawRows, place: Place, options: DecodeOptions) -> DecodedSlice:
    """Decode the spans of one window."""
    notes: Counter[str] = Counter(rows.notes)
    fields = fields_of(rows, "traces", options.fields)
    columns = row_ids(rows, place)
    columns["span_trace_id"] = role_ids(fields, "trace_id", 16, "invalid_trace_id", notes)
    columns["span_id"] = role_ids(fields, "span_id", 8, "invalid_span_id", notes)
    columns["span_parent_span_id"] = role_ids(fields, "parent_span_id", 8, "invalid_parent_span_id", notes)
    columns["span_name"] = without_dictionary(role_text(fields, "span_name")[0]).fill_null("")
    columns["span_kind"] = _words(fields, "kind", "span_kind_", KIND_NAMES)
    columns["span_status_code"] = _words(fields, "status", "status_code_", STATUS_NAMES)
    columns["span_status_message"] = role_text(fields, "status_message")[0]
    columns |= _times(fields, place.arrival_ns, notes)
    columns |= _absent(rows.count)
    service, flat = service_attribute(fields)
    streams = streams_of(rows, [("service_name", service)], options.index_attributes)
    every_row = np.arange(rows.count, dtype=np.int32)
    columns[CHQ_STREAM_ID], columns[CHQ_STREAM] = stream_columns(streams, every_row)
    columns["service_name"] = _name_services(service)
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


def _words(fields: Fields, role: str, prefix: str, names: Sequence[str]) -> pa.DictionaryArray:
    """Translate to OTLP's words; the first of `names` where a row has none of them."""
    codes = np.zeros(fields.count, np.int32)
    known = np.zeros(fields.count, np.bool_)
    code_of = {word: code for code, name in enumerate(names) for word in (name, prefix + name, str(code))}
    for key, column in fields.candidates(role):
        texts = with_dictionary(text_of(key[1], column))
        words = [code_of.get(word.strip().lower(), -1) for word in texts.dictionary.to_pylist()]
        found = np.array([*words, -1], np.int32)[texts.indices.fill_null(len(words)).to_numpy()]
        chosen = (found >= 0) & ~known
        codes[chosen] = found[chosen]
        fields.take(key, chosen)
        known |= chosen
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names))


def _times(fields: Fields, arrival_ns: int, notes: Counter[str]) -> dict[str, pa.Array]:
    """Return start, end and duration, each derived from the other two where it is missing."""
    given, stamped = role_times(fields, "start"), role_times(fields, "timestamp")
    ended = role_times(fields, "end")
    start = np.where(given.known, given.ns, stamped.ns)
    has_start = given.known | stamped.known
    length, has_length = _durations(fields, start, has_start, ended, notes)
    fits = has_length & (length <= LAST_NS - np.maximum(start, 0))
    has_end = ended.known | (has_start & fits)
    end = np.where(ended.known, ended.ns, start + np.where(fits, length, 0))
    backwards = ~has_start & ended.known
    start = np.where(backwards, ended.ns - length, np.where(has_start, start, arrival_ns))
    wrong_way = has_end & (end < start)
    both = (has_start | (backwards & has_length)) & has_end & ~wrong_way
    counted = {
        UNREADABLE_TIME: (given.unreadable & ~has_start)
        | (stamped.unreadable & ~has_start)
        | ended.unreadable,
        "time_from_end": backwards,
        TIME_FROM_DATE: np.where(given.known, given.from_date, stamped.from_date),
        TIME_FROM_ARRIVAL: ~has_start & ~ended.known,
        NO_END: ~has_end,
        WRONG_WAY: wrong_way,
    }
    notes.update({note: int(rows.sum()) for note, rows in counted.items() if rows.any()})
    duration = np.where(both, end - start, length)
    return {
        "span_start_ns": pa.array(start),
        "span_end_ns": nullable(end, ~has_end),
        "span_duration_ns": nullable(duration, ~(both | (has_length & ~has_end))),
    }


def _durations(
    fields: Fields, start: np.ndarray, has_start: Mask, ended: RoleTimes, notes: Counter[str]
) -> tuple[np.ndarray, Mask]:
    """Read durations where start and end are not both known; one that contradicts both stays an attribute."""
    length = np.zeros(fields.count, np.int64)
    known = np.zeros(fields.count, np.bool_)
    both = has_start & ended.known
    for key, column in fields.candidates("duration"):
        unit = unit_of(key[0])
        found, readable = read_durations(key[1], column, unit or 1)
        needed = readable & ~known & ~both
        if unit is None and key[1] != "string" and needed.any():
            notes[NO_UNIT] += int(needed.sum())
        length = np.where(needed, found, length)
        fields.take(key, needed | (readable & both & (found == ended.ns - start)))
        known |= needed
    return length, known


def _name_services(service: pa.DictionaryArray) -> pa.DictionaryArray:
    """Fill in the unknown service: the service of spans is never empty."""
    words = [word or UNKNOWN_SERVICE for word in service.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(service.indices, pa.array(words, pa.string()))


def _absent(count: int) -> dict[str, pa.Array]:
    """Fill the columns that only OTLP has, as when they are not sent."""
    zeros, nothing = pa.array(np.zeros(count, np.int64)), pa.nulls(count, _TEXT)
    owners = (CHQ_RESOURCE_DROPPED_ATTRIBUTES, CHQ_SCOPE_DROPPED_ATTRIBUTES)
    dropped = (CHQ_DROPPED_ATTRIBUTES, CHQ_DROPPED_EVENTS, CHQ_DROPPED_LINKS)
    texts = ("span_trace_state", "scope_name", "scope_version", "scope_schema_url", "resource_schema_url")
    return {
        **dict.fromkeys(("span_flags", *dropped, *owners), zeros),
        **dict.fromkeys(texts, nothing),
    }
