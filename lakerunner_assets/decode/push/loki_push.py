"""Loki pushes (`logproto.PushRequest` behind our marker, see formats.py) to Arrow tables.

    {app="shop", level="warn"}  12:00:01.5  "slow cart"  {cart="7"}
      chq_stream {app="shop", level="warn", service_name="shop"} | chq_tsns 12:00:01.5 | log_level WARN |
      log_message slow cart | attribute cart 7

The columns are those of otlp/logs.py: pushed labels make the stream, structured metadata are attributes of
kind string. What OTLP has and a push has not is null or 0. Positions count all entries of the object, also
those of streams with unreadable labels, which are rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.attributes import attribute_columns
from lakerunner_assets.decode.door import Request
from lakerunner_assets.decode.errors import DecodeError, TooLargeError
from lakerunner_assets.decode.fields import KINDS, OWNER, STRING, Matrix
from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.decode.otlp.groups import MAX_SLICE_BYTES, row_of
from lakerunner_assets.decode.otlp.owners import LAST_NS, FlatColumn, assemble, without_empty
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.push import loki_push_scan as scan
from lakerunner_assets.decode.push.loki_push_levels import entry_levels
from lakerunner_assets.decode.push.loki_push_slices import push_slices
from lakerunner_assets.decode.push.loki_push_streams import push_streams
from lakerunner_assets.decode.result import Decoded, Place
from lakerunner_assets.decode.stream_labels import stream_columns
from lakerunner_assets.decode.text import strings
from resources.arrays import Int64s

SECOND_NS = 1_000_000_000
_FURTHEST = LAST_NS // SECOND_NS - 2
"""Seconds that nanoseconds can say, before and after 1970; `nanos` may be up to two of its own."""


def decode_loki_push(payload: Payload, request: Request) -> Iterator[Decoded]:
    """The entries of an object, a slice at a time."""
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


def decode_push(data: bytes, place: Place) -> Decoded:
    """The entries of one PushRequest; the marker is a field that it does not know."""
    if len(data) > MAX_SLICE_BYTES:
        raise TooLargeError(0, f"one message of {len(data)} bytes: the limit is {MAX_SLICE_BYTES}")
    view = np.frombuffer(data, np.uint8)
    pushed = scan.scan_push(view)
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
        "chq_tsns": pa.array(_times(entries, place.arrival_ns, notes)),
        "log_level": levels.level,
        "log_severity_text": without_empty(levels.text),
        "log_message": message,
        "detected_level": levels.detected,
        "chq_fingerprint": pa.array(fingerprints(message)),
        "chq_object": pa.array(np.full(count, place.object_id, np.int64)),
        "chq_position": pa.array(kept + place.first_position),
        "chq_stream_id": stream_ids,
        "chq_stream": stream_texts,
        **_absent(count),
    }
    flat: list[FlatColumn] = [("record", *pair) for pair in metadata.columns.items()]
    if metadata.overflow is not None:
        flat.append(("record", None, metadata.overflow))
    known = dict(zip(found.streams.ids, found.streams.labels, strict=True))
    return Decoded(
        assemble(columns, flat), rejected, dict(notes), found.first_unreadable if rejected else "", known
    )


def _only(pushed: scan.Pushed, kept: Int64s) -> tuple[Matrix, Matrix]:
    """The entries to keep, and the label pairs that are theirs."""
    place = np.full(len(pushed.entries), -1, np.int64)
    place[kept] = np.arange(len(kept))
    owners = place[pushed.pairs[:, OWNER]] if len(pushed.pairs) else pushed.pairs[:, OWNER]
    pairs = pushed.pairs[owners >= 0]
    pairs[:, OWNER] = owners[owners >= 0]
    return pushed.entries[kept], pairs


def _times(entries: Matrix, arrival_ns: int, notes: Counter[str]) -> Int64s:
    """The timestamp, else arrival; one that nanoseconds cannot say is as far away as they can."""
    seconds, nanos = entries[:, scan.SECONDS], entries[:, scan.NANOS]
    late, early = seconds > _FURTHEST, seconds < -_FURTHEST
    unset = (seconds == 0) & (nanos == 0)
    odd = (("time_after_2262", late), ("time_before_1677", early), ("time_from_arrival", unset))
    notes.update({note: int(rows.sum()) for note, rows in odd if rows.any()})
    time = np.clip(seconds, -_FURTHEST, _FURTHEST) * SECOND_NS + nanos
    return np.select([late, early, unset], [LAST_NS, -LAST_NS, arrival_ns], time)


def _absent(count: int) -> dict[str, pa.Array]:
    """What only OTLP has, as it reads there when it is not sent."""
    nothing = pa.nulls(count, pa.dictionary(pa.int32(), pa.string()))
    zeros = pa.array(np.zeros(count, np.int64))
    string = pa.array(np.full(count, STRING, np.int32))
    texts = ("event_name", "scope_name", "scope_version", "scope_schema_url", "resource_schema_url")
    return {
        "chq_observed_tsns": pa.nulls(count, pa.int64()),
        "log_severity_number": pa.array(np.zeros(count, np.int32)),
        "chq_body_kind": pa.DictionaryArray.from_arrays(string, pa.array(KINDS)),
        "trace_id": pa.nulls(count, pa.binary(16)),
        "span_id": pa.nulls(count, pa.binary(8)),
        "log_flags": zeros,
        **{f"chq_{owner}dropped_attributes": zeros for owner in ("", "resource_", "scope_")},
        **dict.fromkeys(texts, nothing),
    }
