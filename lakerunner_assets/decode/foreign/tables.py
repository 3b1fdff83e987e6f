"""Raw columns of JSON lines, CSV and Parquet become decoded tables of any signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from lakerunner_assets.decode.dispatch import DecodedSlice, Decoder, Place, Request
from lakerunner_assets.decode.foreign.log_rows import log_table
from lakerunner_assets.decode.foreign.metric_rows import metric_table
from lakerunner_assets.decode.foreign.span_rows import span_table
from lakerunner_assets.decode.json.lines import RawRows, line_windows, scan_lines
from lakerunner_assets.decode.payload import Payload
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions

TableOf = Callable[[RawRows, Place, DecodeOptions], DecodedSlice]
TABLES: dict[Signal, TableOf] = {
    Signal.LOGS: log_table,
    Signal.METRICS: metric_table,
    Signal.TRACES: span_table,
}
WINDOW_BYTES = 16 << 20
"""Text decoded at a time: its cells and columns take several times as much, and still fit into caches."""


def decode_rows(windows: Iterable[RawRows], request: Request, signal: Signal) -> Iterator[DecodedSlice]:
    """Yield a table per window; rejected rows keep their number in the file."""
    place = request.place
    for rows in windows:
        if rows.lines:
            yield TABLES[signal](rows, place, request.options)
        place = replace(place, first_position=place.first_position + rows.lines)


def decode_json_lines(signal: Signal) -> Decoder:
    """Make a decoder of JSON lines that hold records of this signal."""

    def decoder(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
        windows = line_windows(payload, min(request.slice_bytes, WINDOW_BYTES))
        return decode_rows((scan_lines(part.data, part.base) for part in windows), request, signal)

    return decoder
