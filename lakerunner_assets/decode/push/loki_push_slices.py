"""Cuts a Loki push object of any size into requests of a bounded size.

Between streams where that is enough; a stream larger than a slice is cut between its entries, its labels in
front of every piece: `S{labels, e1 e2 e3}` → `S{labels, e1 e2}` `S{labels, e3}`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakerunner_assets.decode.otlp.framing import (
    CHILD,
    Field,
    Slice,
    _alone,
    _field,
    _header,
    _message,
    _runs,
    whole_fields,
)
from lakerunner_assets.decode.payload import Payload


def push_slices(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Requests of about `slice_bytes` that hold all entries of the payload, in order."""
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
        field = _field(payload, position, payload.size)
        if field.tag == CHILD:
            yield from _cut_stream(payload, field, slice_bytes)
        position = field.end


def _cut_stream(payload: Payload, stream: Field, slice_bytes: int) -> Iterator[Slice]:
    head = _header(payload, stream)
    for entries in _runs(payload, stream, slice_bytes):
        piece = entries if isinstance(entries, Slice) else _alone(payload, entries)
        yield Slice(piece.base, _message(CHILD, head + piece.data))
