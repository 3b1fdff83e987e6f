"""From a plan to what the opener is asked for."""

from __future__ import annotations

from lakerunner_query.plan.logql import ReadStreams
from lakerunner_query.worker.blooms import Needles
from lakerunner_query.worker.selection import Selection


def selection(source: ReadStreams, start_ns: int, end_ns: int) -> Selection:
    needles = tuple(map(Needles.of, source.words))
    return Selection(source.matchers, start_ns, end_ns, source.narrowing, needles)
