"""JSON lines, or one array of objects, of anybody: scanned by `decode/json/lines.py`, mapped here."""

from __future__ import annotations

from collections.abc import Iterator

from lakerunner_assets.decode.door import Decoder, Request
from lakerunner_assets.decode.foreign.decoder import WINDOW_BYTES, decode_rows
from lakerunner_assets.decode.json.lines import line_windows, scan_lines
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.result import Decoded
from resources.lake.layout import Signal


def decode_json_lines(signal: Signal) -> Decoder:
    """A decoder of JSON lines that hold records of this signal."""

    def decoder(payload: Payload, request: Request) -> Iterator[Decoded]:
        windows = line_windows(payload, min(request.slice_bytes, WINDOW_BYTES))
        return decode_rows((scan_lines(part.data, part.base) for part in windows), request, signal)

    return decoder
