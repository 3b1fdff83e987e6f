"""Rows older than the organisation's retention go to quarantine, not into hours that have expired."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from resources.lake.layout import Signal
from resources.lake.retention import SEGMENTS, too_old_ns
from resources.lake.timecut import DAY_NS, HOUR_NS, hour_start
from tests.support.cooking_lake import lake_in
from tests.support.otlp_logs import otlp_logs

NOW_HOUR = hour_start(time.time_ns())


@pytest.mark.parametrize(("keep_days", "quarantined"), [(None, 0), (9, 0), (5, 1)])
def test_rows_past_the_retention_are_quarantined(
    tmp_path: Path, keep_days: int | None, quarantined: int
) -> None:
    lake = lake_in(tmp_path)
    if keep_days is not None:
        lake.index.put_retention("acme", Signal.LOGS, SEGMENTS, keep_days)
        lake.index.put_retention("acme", Signal.METRICS, SEGMENTS, 1)
    lake.arrive("a", otlp_logs([(NOW_HOUR + 1, "new"), (NOW_HOUR - 7 * DAY_NS + 1, "late")]), NOW_HOUR)
    lake.cook()
    assert lake.report.quarantined == quarantined
    assert sum(lake.messages().values()) == 2 - quarantined
    assert sum(lake.messages("logs-quarantine").values()) == quarantined


def test_the_oldest_hour_is_taken_in_whole(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    lake.index.put_retention("acme", Signal.LOGS, SEGMENTS, 3)
    first = too_old_ns(3, time.time_ns())
    rows = [(first, "last of the hour before"), (first + 1, "first"), (first + HOUR_NS, "last")]
    lake.arrive("a", otlp_logs(rows), NOW_HOUR)
    lake.cook()
    assert lake.messages() == {"first": 1, "last": 1}
