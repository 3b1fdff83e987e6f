"""Volumes of streams: buckets are bounded by number, whatever step is asked for."""

from __future__ import annotations

import pytest

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.units import SegmentRef, StreamsUnit
from lakerunner_query.worker.logs import stream_listing
from lakerunner_query.worker.logs.stream_listing import SegmentStream, measure_volumes
from resources.lake.streams import Stream

SEGMENT = SegmentRef("s", "key", 1000, 0, 99, 0, 0, rows=100)


def held(streams: int) -> list[SegmentStream]:
    return [SegmentStream(SEGMENT, Stream(n, (("app", f"a{n}"),), 100, 0, 99)) for n in range(streams)]


def test_volumes_are_counted_while_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_listing, "MAX_VOLUMES", 30)
    unit = StreamsUnit("", (), (), 0, 100, "volumes", labels=("app",), step_ns=10)
    assert len(measure_volumes(held(3), unit).volumes) == 30
    with pytest.raises(LimitExceededError, match="more than 30"):
        measure_volumes(held(4), unit)
