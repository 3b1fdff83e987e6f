"""A plan and a slice become a unit of work for one worker.

The affinity names the partition a unit mostly reads, so that the same worker's disk cache serves it again
next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakerunner_query.plan.logql import TakeRows
from lakerunner_query.plan.slices import RowSliceSizes, Slice, cut_slices
from lakerunner_query.protocol.units import LogUnit, segment_ref
from resources.index.types import Segment

FOR_NEEDLES = RowSliceSizes(rows=16_000_000, bytes=2 << 30, first=1.0)
"""Where words are looked for, most segments are not opened: a unit has many, and stops early by itself."""


def log_units(
    plan: TakeRows,
    segments: Sequence[Segment],
    sizes: RowSliceSizes | None = None,
    *,
    text: str,
    now_ns: int = 0,
) -> Iterator[LogUnit]:
    """Units in answering order, made one at a time: most queries stop early."""
    streams = plan.source.source
    chosen = sizes or (FOR_NEEDLES if streams.words else RowSliceSizes())
    for part in cut_slices(segments, streams.start_ns, streams.end_ns, reverse=plan.reverse, sizes=chosen):
        yield LogUnit(
            affinity=affinity(streams.org, streams.dataset, part),
            segments=tuple(map(segment_ref, part.segments)),
            text=text,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            limit=plan.limit,
            reverse=plan.reverse,
            distinct=plan.distinct,
            now_ns=now_ns,
        )


def affinity(org: str, dataset: str, part: Slice[Segment]) -> str:
    heaviest = max(part.segments, key=lambda s: (s.bytes, s.segment_id))
    return f"{org}/{dataset}/{heaviest.hour_ns}"
