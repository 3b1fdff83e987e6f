"""The whole path of any query over the small lake in one process: engine, units, workers' readers.

Units and answers are encoded and decoded as if they travelled. `Interrupted` stands before an index and
publishes something between two of its reads.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import msgspec

from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.fairness import Admission
from lakerunner_query.protocol.units import Unit
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from lakerunner_query.worker.units import AnswerCache, Readers, answer_unit
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.index.types import BatchKind, BatchPlan, Publication, Segment
from tests.support.query.homes import open_lake
from tests.support.query.lake import Lake

Answer = TypeVar("Answer")


class InProcess:
    """The contract of `Dispatcher`, without sockets, for units of every kind."""

    count = 2

    def __init__(self, lake: Path, scratch: Path) -> None:
        store = open_lake(lake)
        blocks = BlockCache(scratch / "blocks", 1 << 30, store)
        session = DuckSession(DuckLimits(256, 1, scratch / "spill", (), LakeFileSystem(blocks.handle)))
        self.readers = Readers.of(SegmentOpener(blocks), MetricOpener(blocks, 1 << 28), session)
        self.units: list[Any] = []

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], Answer], *, org: str = "", ahead: int = 1
    ) -> AsyncGenerator[Answer, None]:
        del org, ahead
        for unit in units:
            received: Any = msgspec.json.decode(msgspec.json.encode(unit), type=Unit)  # type: ignore[arg-type]
            self.units.append(received)
            body, _ = answer_unit(received, self.readers, AnswerCache(0), Cancellation())
            yield decode(body)


def engine_over(index: object, dispatcher: InProcess) -> Engine:
    return Engine(
        Locator(cast("Any", index)), cast("Dispatcher", dispatcher), Admission(4), Limits(60.0, max_rows=1000)
    )


class Interrupted:
    """An index in which `happen` happens once, right after the first read of segments."""

    def __init__(self, index: object, happen: Callable[[], object]) -> None:
        self._index = index
        self._happen: Callable[[], object] | None = happen
        self._one_at_a_time = Lock()

    def __getattr__(self, name: str) -> object:
        method = getattr(self._index, name)

        def call(*arguments: object) -> object:
            with self._one_at_a_time:
                found = method(*arguments)
                if self._happen is not None:
                    self._happen()
                    self._happen = None
                return found

        return call


def compact(lake: Lake, segment: Segment, number: int = 1) -> Segment:
    """Replace a segment by one with the same rows, as merging it does."""
    segment_id = f"c{number:015x}{segment.segment_id[16:]}"
    key = f"{segment.key.rsplit('/', 1)[0]}/{segment_id}.parquet"
    os.link(lake.folder / segment.key, lake.folder / key)
    merged = replace(segment, segment_id=segment_id, key=key, level=segment.level + 1)
    plan = BatchPlan(
        BatchKind.COMPACT, segment.org, "default", segment.signal, segment.hour_ns,
        segment_ids=(segment.segment_id,),
    )  # fmt: skip
    claim = lake.index.create_claimed(plan)
    published = Publication(claim, (merged,), retire=(segment.segment_id,), hours=(segment.hour_ns,))
    lake.index.publish(published)
    return merged
