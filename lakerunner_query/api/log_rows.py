"""Rows of a unit as events of `/api/v1/logs/query`: fragments joined, nothing parsed unless `fields` asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import pyarrow as pa

CHUNK_ROWS = 500
COLUMNS = ("tsns", "line", "object", "position")
KINDS = ("labels", "metadata", "parsed")
"""JSON objects: of the stream, sent with the line, made by stages."""


def row_events(rows: pa.Table, fields: Collection[str]) -> list[bytes]:
    """One `result` event a row, several to a chunk of bytes."""
    events = list(_events(rows, frozenset(fields)))
    return [b"".join(events[at : at + CHUNK_ROWS]) for at in range(0, len(events), CHUNK_ROWS)]


def _events(rows: pa.Table, fields: frozenset[str]) -> Iterator[bytes]:
    columns = [rows[name].to_pylist() for name in (*COLUMNS, *KINDS)]
    encode = msgspec.json.Encoder().encode
    for tsns, line, source, position, *objects in zip(*columns, strict=True):
        labels, metadata, parsed = [_only(one, fields) for one in objects] if fields else objects
        yield (
            (
                f'data: {{"type":"result","data":{{"timestamp":"{tsns}","labels":{labels},'
                f'"metadata":{metadata},"parsed":{parsed},"id":"{source}:{position}","message":'
            ).encode()
            + encode(line)
            + b"}}\n\n"
        )


def _only(rendered: str, fields: frozenset[str]) -> str:
    values: dict[str, str] = msgspec.json.decode(rendered)
    return msgspec.json.encode({k: v for k, v in values.items() if k in fields}).decode()
