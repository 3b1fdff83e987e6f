"""Every raw object is decoded here: recognise its format, call the decoder of its signal.

A signal brings a table of decoders by format (`signals/`); this module holds what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakerunner_assets.decode.errors import DecodeError, MalformedError
from lakerunner_assets.decode.formats import Format, sniff
from lakerunner_assets.decode.otlp.framing import Slice, slices
from lakerunner_assets.decode.payload import Payload
from resources.lake.options import DecodeOptions, MetricNaming
from resources.lake.streams import Labels

__all__ = ["DecodeOptions", "DecodedSlice", "MetricNaming", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a slice: its object, the ordinal of its first row, the arrival time."""

    object_id: int
    first_position: int
    arrival_ns: int


@dataclass(frozen=True, slots=True)
class DecodedSlice:
    """Rows of one slice, in their order."""

    table: pa.Table
    rejected: int = 0
    """Number of records that could not be read: lines of JSON or CSV. OTLP has no such thing."""
    notes: dict[str, int] = field(default_factory=dict)
    """Counted oddities: time_from_observed, time_from_arrival, invalid_utf8, invalid_trace_id, …"""
    first_rejected: str = ""
    """Position of the first rejected record, and the reason."""
    streams: dict[int, Labels] = field(default_factory=dict)
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of foreign data that were read as time, message, service, …, by role."""


@dataclass(frozen=True, slots=True)
class Request:
    """Parameters of a decoder, beside the payload."""

    name: str
    place: Place
    options: DecodeOptions
    slice_bytes: int


Decoder = Callable[[Payload, Request], Iterator[DecodedSlice]]
SliceDecoder = Callable[[bytes, Place, DecodeOptions], DecodedSlice]
Decoders = Mapping[Format, Decoder]


def decode(payload: Payload, request: Request, decoders: Decoders) -> Iterator[DecodedSlice]:
    """Decode a payload in order, a slice at a time.

    An error may come after some slices were yielded: it fails the whole object, so drop those.
    """
    found = sniff(payload.head(), request.name)
    decoder = decoders.get(found)
    if decoder is None:
        known = ", ".join(sorted(each.value for each in decoders))
        raise MalformedError(0, f"looks like {found.value}; expected {known}")
    yield from decoder(payload, request)


def protobuf(decode_slice: SliceDecoder) -> Decoder:
    """Make a decoder of OTLP protobuf of any size."""

    def decoder(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
        return decode_slices(slices(payload, request.slice_bytes), request, decode_slice)

    return decoder


def decode_slices(
    parts: Iterator[Slice], request: Request, decode_slice: SliceDecoder
) -> Iterator[DecodedSlice]:
    """Decode slices in order; number rows throughout and shift error offsets to the payload's."""
    place = request.place
    for part in parts:
        try:
            decoded = decode_slice(part.data, place, request.options)
        except DecodeError as error:
            if part.base == 0:
                raise
            raise type(error)(error.offset + part.base, error.message) from error
        place = replace(place, first_position=place.first_position + decoded.table.num_rows)
        yield decoded
