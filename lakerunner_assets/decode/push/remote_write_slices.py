"""Cuts a remote write object of any size between its fields, into slices of about a given size.

A series is never cut: senders put at most some thousand samples into one, megabytes at the very worst.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakerunner_assets.decode.errors import TooLargeError
from lakerunner_assets.decode.otlp.framing import Slice, whole_fields
from lakerunner_assets.decode.payload import Payload

MAX_SERIES_BYTES = 64 << 20


def series_slices(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Whole fields of the payload, in order; what is cut short or broken is in the last slice."""
    position, size = 0, slice_bytes
    while position < payload.size:
        window = payload.read(position, size)
        last = position + len(window) == payload.size
        length = len(window) if last else int(whole_fields(np.frombuffer(window, np.uint8), len(window)))
        if length:
            yield Slice(position, window[:length])
            position, size = position + length, slice_bytes
        elif size < MAX_SERIES_BYTES:
            size = min(2 * size, MAX_SERIES_BYTES)
        else:
            raise TooLargeError(position, f"no field ends within the limit of {MAX_SERIES_BYTES} bytes")
