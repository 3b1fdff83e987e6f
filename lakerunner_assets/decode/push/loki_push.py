"""Loki pushes (`logproto.PushRequest` behind our marker, see formats.py) become Arrow tables.

    {app="shop", level="warn"}  12:00:01.5  "slow cart"  {cart="7"}
      stream {app="shop", level="warn", service_name="shop"} | event time 12:00:01.5 | log_level WARN |
      log_message slow cart | attribute cart 7

The columns are those of otlp/logs.py: pushed labels make the stream, structured metadata are attributes of
kind string. Columns that only OTLP fills are null or 0. Positions count all entries of the object, also those
of streams with unreadable labels, which are rejected. An object is cut between streams, and a stream larger
than a slice between its entries, with its labels in front of every piece.

As Loki does, the service is looked for in a list of other labels, so that every stream has one: `{app="shop",
env="prod"}` is of the service `shop`. The level is taken in Loki's order: a stream label of a usual name,
then structured metadata of one. `detected_level` sent as metadata (by another Loki, or an agent) is the last
choice for `log_level` and the first for our column of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.attributes import (
    ResourceStreams,
    attribute_columns,
    stream_columns,
)
from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request
from lakerunner_assets.decode.errors import DecodeError, TooLargeError, raise_fault
from lakerunner_assets.decode.field_kernels import (
    ATTRIBUTE_WIDTH,
    KINDS,
    OWNER,
    STRING,
    Matrix,
    matrix,
    spans_of,
)
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.decode.levels import detect_levels, levels
from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.decode.otlp.framing import (
    CHILD,
    Field,
    Slice,
    read_alone,
    read_field,
    read_header,
    read_runs,
    write_message,
)
from lakerunner_assets.decode.otlp.groups_kernels import MAX_SLICE_BYTES
from lakerunner_assets.decode.otlp.owners import LAST_NS, FlatColumn, assemble, row_of, without_empty
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.push import loki_push_kernels as scan
from lakerunner_assets.decode.push.loki_push_kernels import ENTRY_WIDTH, STREAM_WIDTH, PushRows, walk_push
from lakerunner_assets.decode.slice_kernels import distinct
from lakerunner_assets.decode.text import strings
from lakerunner_assets.decode.wire_kernels import whole_fields
from resources.arrays import Bytes, Int64s
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
from resources.lake.label_text import parse_labels
from resources.lake.streams import UNKNOWN_SERVICE, Labels, canonical, stream_id


def push_slices(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Yield requests of about `slice_bytes` that hold all entries of the payload, in order."""
    position = 0
    while position < payload.size:
        window = payload.read(position, slice_bytes)
        length = int(whole_fields(np.frombuffer(window, np.uint8), len(window)))
        if position + len(window) == payload.size:
            length = len(window)  # the end of the object: what is cut short here is malformed
        if length:
            yield Slice(position, window[:length])
            position += length
            continue
        field = read_field(payload, position, payload.size)
        if field.tag == CHILD:
            yield from _cut_stream(payload, field, slice_bytes)
        position = field.end


def _cut_stream(payload: Payload, stream: Field, slice_bytes: int) -> Iterator[Slice]:
    head = read_header(payload, stream)
    for entries in read_runs(payload, stream, slice_bytes):
        piece = entries if isinstance(entries, Slice) else read_alone(payload, entries)
        yield Slice(piece.base, write_message(CHILD, head + piece.data))


LEVEL_NAMES = (
    "level", "LEVEL", "Level", "log.level", "severity", "SEVERITY", "Severity", "SeverityText", "lvl", "LVL",
    "Lvl", "severity_text", "Severity_Text", "SEVERITY_TEXT",
)  # fmt: skip
"""Loki's default `log_level_fields`."""
DETECTED_LEVEL = "detected_level"


class Levels(NamedTuple):
    level: pa.DictionaryArray
    detected: pa.DictionaryArray
    text: pa.DictionaryArray
    """Level as sent, '' where nothing was."""


def entry_levels(
    label_sets: Iterable[Labels],
    set_of_entry: np.ndarray,
    metadata: Mapping[Attribute, pa.Array],
    message: pa.StringArray,
) -> Levels:
    """Return the levels of every entry."""
    by_label = pa.array([_of_labels(dict(labels)) for labels in label_sets], pa.string())
    sent = [by_label.take(pa.array(set_of_entry))]
    sent += [_text(metadata, name) for name in (*LEVEL_NAMES, DETECTED_LEVEL) if _key(name) in metadata]
    text = _first_text(sent)
    level = _levels(text)
    source = level
    if _key(DETECTED_LEVEL) in metadata:
        source = _levels(_first_text([_text(metadata, DETECTED_LEVEL), *sent]))
    return Levels(level, detect_levels(source, message), text)


def _of_labels(labels: Mapping[str, str]) -> str | None:
    return next((labels[name] for name in LEVEL_NAMES if name in labels), None)


def _key(name: str) -> Attribute:
    return Attribute("record", name, "string")


def _text(metadata: Mapping[Attribute, pa.Array], name: str) -> pa.StringArray:
    """Return metadata as text, null where it is empty."""
    column = metadata[_key(name)].cast(pa.string())
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _first_text(texts: list[pa.StringArray]) -> pa.DictionaryArray:
    """Take the first text that is not null, '' where all are."""
    return pc.fill_null(pc.coalesce(*texts), "").dictionary_encode()


def _levels(text: pa.DictionaryArray) -> pa.DictionaryArray:
    return levels(np.zeros(len(text), np.int32), text)


SERVICE_LABELS = (
    "service", "app", "application", "app_name", "name", "app_kubernetes_io_name", "container",
    "container_name", "k8s_container_name", "component", "workload", "job", "k8s_job_name",
)  # fmt: skip
"""Loki's default `discover_service_name`, in its order."""


@dataclass(frozen=True, slots=True)
class PushStreams:
    """Streams of a slice."""

    streams: ResourceStreams
    """Streams; `of_resource` is the label set of every stream message, -1 where its labels are unreadable."""
    first_unreadable: str
    """Position of the first unreadable labels, and why; '' if all could be read."""


def push_streams(data: Bytes, pushed: PushRows, notes: Counter[str]) -> PushStreams:
    """Parse every distinct label text once."""
    codes, texts = distinct(data, spans_of(pushed.streams, scan.LABELS))
    known: dict[Labels, int] = {}
    stream_of_text = np.full(len(texts.start), -1, np.int32)
    reasons: dict[int, str] = {}
    for index, text in enumerate(strings(data, texts, notes).to_pylist()):
        try:
            labels = with_service(parse_labels(text))
        except ValueError as error:
            reasons[index] = f"labels {text[:200]!r}: {error}"
            continue
        stream_of_text[index] = known.setdefault(labels, len(known))
    of_stream = stream_of_text[codes] if len(codes) else codes
    streams = ResourceStreams(of_stream, tuple(known), tuple(stream_id(labels) for labels in known))
    bad = np.flatnonzero(of_stream < 0)
    if not len(bad):
        return PushStreams(streams, "")
    first = int(bad[0])
    return PushStreams(
        streams, f"stream at byte {pushed.streams[first, scan.AT]}: {reasons[int(codes[first])]}"
    )


def with_service(labels: Mapping[str, str]) -> Labels:
    """Add the service label to a label set that lacks it.

    >>> with_service({"job": "nightly", "app": "shop"})
    (('app', 'shop'), ('job', 'nightly'), ('service_name', 'shop'))
    """
    if labels.get("service_name"):
        return canonical(labels)
    found = (labels[name] for name in SERVICE_LABELS if labels.get(name))
    return canonical({**labels, "service_name": next(found, UNKNOWN_SERVICE)})


SECOND_NS = 1_000_000_000
_FURTHEST = LAST_NS // SECOND_NS - 2
"""Seconds before and after 1970 that fit nanoseconds; `nanos` may be up to two of its own."""


def decode_loki_push(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
    """Decode the entries of an object, a slice at a time."""
    place = request.place
    for part in push_slices(payload, request.slice_bytes):
        try:
            decoded = decode_push(part.data, place)
        except DecodeError as error:
            if part.base == 0:
                raise
            raise type(error)(error.offset + part.base, error.message) from error
        passed = decoded.table.num_rows + decoded.rejected
        place = replace(place, first_position=place.first_position + passed)
        yield decoded


def decode_push(data: bytes, place: Place) -> DecodedSlice:
    """Decode the entries of one PushRequest; the marker is a field that it does not know."""
    if len(data) > MAX_SLICE_BYTES:
        raise TooLargeError(0, f"one message of {len(data)} bytes: the limit is {MAX_SLICE_BYTES}")
    view = np.frombuffer(data, np.uint8)
    pushed = scan_push(view)
    notes: Counter[str] = Counter()
    found = push_streams(view, pushed, notes)
    stream_of_entry = row_of(found.streams.of_resource, pushed.entries[:, scan.STREAM])
    kept = np.flatnonzero(stream_of_entry >= 0)
    rejected = len(stream_of_entry) - len(kept)
    entries, pairs = _only(pushed, kept) if rejected else (pushed.entries, pushed.pairs)
    stream_of_entry = stream_of_entry[kept].astype(np.int32)
    count = len(entries)
    metadata = attribute_columns(view, fields.attributes_of(pairs), count, "record", notes)
    message = strings(view, fields.spans_of(entries, scan.LINE), notes)
    levels = entry_levels(found.streams.labels, stream_of_entry, metadata.columns, message)
    stream_ids, stream_texts = stream_columns(found.streams, entries[:, scan.STREAM].astype(np.int32))
    columns = {
        CHQ_TSNS: pa.array(_times(entries, place.arrival_ns, notes)),
        "log_level": levels.level,
        "log_severity_text": without_empty(levels.text),
        "log_message": message,
        "detected_level": levels.detected,
        CHQ_FINGERPRINT: pa.array(fingerprints(message)),
        CHQ_OBJECT: pa.array(np.full(count, place.object_id, np.int64)),
        CHQ_POSITION: pa.array(kept + place.first_position),
        CHQ_STREAM_ID: stream_ids,
        CHQ_STREAM: stream_texts,
        **_absent(count),
    }
    flat: list[FlatColumn] = [("record", *pair) for pair in metadata.columns.items()]
    if metadata.overflow is not None:
        flat.append(("record", None, metadata.overflow))
    known = dict(zip(found.streams.ids, found.streams.labels, strict=True))
    return DecodedSlice(
        assemble(columns, flat), rejected, dict(notes), found.first_unreadable if rejected else "", known
    )


def _only(pushed: scan.PushRows, kept: Int64s) -> tuple[Matrix, Matrix]:
    """Keep some entries, and the label pairs that are theirs."""
    place = np.full(len(pushed.entries), -1, np.int64)
    place[kept] = np.arange(len(kept))
    owners = place[pushed.pairs[:, OWNER]] if len(pushed.pairs) else pushed.pairs[:, OWNER]
    pairs = pushed.pairs[owners >= 0]
    pairs[:, OWNER] = owners[owners >= 0]
    return pushed.entries[kept], pairs


def _times(entries: Matrix, arrival_ns: int, notes: Counter[str]) -> Int64s:
    """Return the timestamp, else arrival; clip what nanoseconds cannot hold."""
    seconds, nanos = entries[:, scan.SECONDS], entries[:, scan.NANOS]
    late, early = seconds > _FURTHEST, seconds < -_FURTHEST
    unset = (seconds == 0) & (nanos == 0)
    odd = (("time_after_2262", late), ("time_before_1677", early), ("time_from_arrival", unset))
    notes.update({note: int(rows.sum()) for note, rows in odd if rows.any()})
    time = np.clip(seconds, -_FURTHEST, _FURTHEST) * SECOND_NS + nanos
    return np.select([late, early, unset], [LAST_NS, -LAST_NS, arrival_ns], time)


def _absent(count: int) -> dict[str, pa.Array]:
    """Fill the columns that only OTLP has, as when they are not sent."""
    nothing = pa.nulls(count, pa.dictionary(pa.int32(), pa.string()))
    zeros = pa.array(np.zeros(count, np.int64))
    string = pa.array(np.full(count, STRING, np.int32))
    texts = ("event_name", "scope_name", "scope_version", "scope_schema_url", "resource_schema_url")
    return {
        CHQ_OBSERVED_TSNS: pa.nulls(count, pa.int64()),
        "log_severity_number": pa.array(np.zeros(count, np.int32)),
        CHQ_BODY_KIND: pa.DictionaryArray.from_arrays(string, pa.array(KINDS)),
        "trace_id": pa.nulls(count, pa.binary(16)),
        "span_id": pa.nulls(count, pa.binary(8)),
        "log_flags": zeros,
        **{dropped_attributes(owner): zeros for owner in ("", "resource_", "scope_")},
        **dict.fromkeys(texts, nothing),
    }


def scan_push(data: Bytes) -> PushRows:
    """Scan one request."""
    counted = _room(0, 0, 0)
    raise_fault(walk_push(data, counted, False))
    pushed = _room(*counted.used.tolist())
    raise_fault(walk_push(data, pushed, True))
    return pushed


def _room(streams: int, entries: int, pairs: int) -> PushRows:
    return PushRows(
        matrix(streams, STREAM_WIDTH),
        matrix(entries, ENTRY_WIDTH),
        matrix(pairs, ATTRIBUTE_WIDTH),
        np.zeros(3, np.int64),
    )
