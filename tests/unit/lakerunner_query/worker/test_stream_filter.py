"""Streams are selected alike whether their label sets are remembered or not."""

from __future__ import annotations

import pytest

from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.logql import ReadStreams
from lakerunner_query.worker.logs import stream_filter
from lakerunner_query.worker.logs.stream_filter import StreamFilter
from resources.lake.streams import Stream, canonical

SETS = [canonical({"app": f"a{number}", "env": ("prod", "dev")[number % 2]}) for number in range(8)]
STREAMS = [Stream(number, labels, 1, 0, 10 * number) for number, labels in enumerate(SETS)]


@pytest.mark.parametrize("most", [0, 3, 100])
def test_remembered_label_sets_change_no_selection(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(stream_filter, "MOST_VERDICTS", most)
    source = ReadStreams("", parse(f'{{env="prod", app=~"a[0-5]", x{most}=""}}').matchers, 0, 0)
    for first in (0, 25, 0):
        chosen = StreamFilter.of(source, first, 1000)
        for part in (STREAMS[:3], STREAMS[2:], STREAMS):
            expected = [s for s in part if s.max_ns >= first and s.labels in SETS[:6:2]]
            assert chosen.selects_any(part) == bool(expected)
            assert list(chosen.select(part)) == expected
            assert chosen.selects_any(part) == bool(expected)


def test_another_query_has_a_memory_of_its_own() -> None:
    prod, dev = (ReadStreams("", parse(f'{{env="{env}"}}').matchers, 0, 0) for env in ("prod", "dev"))
    found = [StreamFilter.of(source, 0, 1000).select(STREAMS) for source in (prod, dev, prod)]
    assert [[s.stream_id % 2 for s in each] for each in found] == [[0] * 4, [1] * 4, [0] * 4]
