"""Where every raw object is decoded: envelope, format, decoder.

A signal brings a table of decoders by format (`signals/`); here is what they share.
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

# << What goes into a decoder beside the bytes, and what comes out: the same for every format and signal.

__all__ = ["DecodeOptions", "Decoded", "MetricNaming", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which rows these are: the object, the ordinal of the slice's first row in it, when it arrived."""

    object_id: int
    first_position: int
    arrival_ns: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of one slice, in their order."""

    table: pa.Table
    rejected: int = 0
    """Records that could not be read, alone: lines of JSON or CSV. OTLP has no such thing."""
    notes: dict[str, int] = field(default_factory=dict)
    """What was odd, counted: time_from_observed, time_from_arrival, invalid_utf8, invalid_trace_id, …"""
    first_rejected: str = ""
    """Where and why the first of the rejected could not be read."""
    streams: dict[int, Labels] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a decoder, beside the payload."""

    name: str
    place: Place
    options: DecodeOptions
    slice_bytes: int


Decoder = Callable[[Payload, Request], Iterator[Decoded]]
SliceDecoder = Callable[[bytes, Place, DecodeOptions], Decoded]
Decoders = Mapping[Format, Decoder]


def decode(payload: Payload, request: Request, decoders: Decoders) -> Iterator[Decoded]:
    """The rows of a payload in order, a slice at a time.

    An error may come after some slices were yielded: it fails the whole object, so drop those.
    """
    found = sniff(payload.head(), request.name)
    decoder = decoders.get(found)
    if decoder is None:
        known = ", ".join(sorted(each.value for each in decoders))
        raise MalformedError(0, f"looks like {found.value}; expected {known}")
    yield from decoder(payload, request)


def protobuf(decode_slice: SliceDecoder) -> Decoder:
    """A decoder of OTLP protobuf of any size."""

    def decoder(payload: Payload, request: Request) -> Iterator[Decoded]:
        return decode_slices(slices(payload, request.slice_bytes), request, decode_slice)

    return decoder


def decode_slices(parts: Iterator[Slice], request: Request, decode_slice: SliceDecoder) -> Iterator[Decoded]:
    """Decode one after the other; rows are numbered through, offsets of errors are those of the payload."""
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
