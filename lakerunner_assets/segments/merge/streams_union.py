"""The streams of several log or span segments: all label sets, and the order of their services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakerunner_assets.segments.merge.request import SourceError
from lakerunner_assets.segments.merge.source import Source, naming
from resources.arrays import Int64s
from resources.lake import streams
from resources.lake.streams import Labels


@dataclass(frozen=True, slots=True)
class StreamUnion:
    """All streams, by id."""

    ids: Int64s
    labels: tuple[Labels, ...]
    service_rank: Int64s

    def __len__(self) -> int:
        return len(self.ids)


def stream_union(sources: Sequence[Source]) -> StreamUnion:
    found: dict[int, Labels] = {}
    for source in sources:
        with naming(source.path):
            table = streams.decode(source.block)
        for stream in table:
            known = found.setdefault(stream.stream_id, stream.labels)
            if known != stream.labels:
                raise SourceError(
                    source.path,
                    f"stream id {stream.stream_id} of both {known} and {stream.labels}: the hash collided",
                )
    ids = sorted(found)
    services = [dict(found[each]).get("service_name", "") for each in ids]
    place = {name: rank for rank, name in enumerate(sorted(set(services), key=str.encode))}
    return StreamUnion(
        np.array(ids, np.int64),
        tuple(found[each] for each in ids),
        np.array([place[name] for name in services], np.int64),
    )
