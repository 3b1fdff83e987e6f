"""The streams of decoded rows: which label sets they have, how many rows of each, and when."""

from __future__ import annotations

import pyarrow as pa

from resources.lake.streams import Labels, Stream, labels_from_text, stream_id

STREAM_COLUMN = "chq_stream"
"""Label texts, a dictionary; it becomes the stream table and is not written as a column."""


def streams_of(table: pa.Table, time_column: str) -> list[Stream]:
    """The streams that have rows."""
    column = table.column(STREAM_COLUMN).chunk(0)
    texts = column.dictionary.to_pylist()
    grouped = (
        pa.table({"code": column.indices, "time": table.column(time_column)})
        .group_by("code", use_threads=False)
        .aggregate([("time", "count"), ("time", "min"), ("time", "max")])
        .to_pylist()
    )
    by_id: dict[int, Labels] = {}
    found: list[Stream] = []
    for row in grouped:
        labels = labels_from_text(texts[row["code"]])
        identity = stream_id(labels)
        if by_id.setdefault(identity, labels) != labels:
            raise ValueError(
                f"stream id {identity} of both {by_id[identity]} and {labels}: the hash collided"
            )
        found.append(Stream(identity, labels, row["time_count"], row["time_min"], row["time_max"]))
    return found
