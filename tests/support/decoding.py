"""Decoding in a test: the door and the decoders with defaults for what the test does not care about."""

from __future__ import annotations

from collections.abc import Iterator

from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request, decode
from lakerunner_assets.decode.otlp import logs
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions


def decode_logs(
    data: bytes, *, object_id: int = 1, first_position: int = 0, arrival_ns: int = 1
) -> DecodedSlice:
    """One slice of OTLP protobuf logs."""
    return logs.decode_logs(data, Place(object_id, first_position, arrival_ns), DecodeOptions())


def decode_object(
    data: bytes,
    *,
    signal: Signal = Signal.LOGS,
    name: str = "object",
    object_id: int = 1,
    arrival_ns: int = 1,
    max_bytes: int = 1 << 24,
    slice_bytes: int = 1 << 24,
    options: DecodeOptions | None = None,
) -> Iterator[DecodedSlice]:
    """A whole raw object, as the cook task decodes it."""
    request = Request(name, Place(object_id, 0, arrival_ns), options or DecodeOptions(), slice_bytes)
    with open_payload(data, max_bytes) as payload:
        yield from decode(payload, request, SIGNALS[signal].decoders())
