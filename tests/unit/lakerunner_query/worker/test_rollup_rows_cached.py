"""Rows of rollups are decoded once for all queries of the same windows, and anew when segments change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.worker.metrics import rollups
from tests.golden.lake_source import LakeFiles
from tests.golden.memory_source import Sample

HOUR = 3_600_000
UP = (Matcher("__name__", MatchOp.EQUAL, "up"),)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows that are decoded, by time."""
    found: list[int] = []
    decode = rollups.columns_of

    def noted(table: object, series: np.ndarray, width_ms: int) -> object:
        found.append(len(series))
        return decode(table, series, width_ms)

    monkeypatch.setattr(rollups, "columns_of", noted)
    return found


@pytest.fixture
def lake() -> Iterator[LakeFiles]:
    """Two series over six hours of two days."""
    found = LakeFiles(with_rollups=True)
    for number in range(2):
        labels = (("__name__", "up"), ("n", str(number)))
        found.series[labels] = [
            Sample(21 * HOUR + s * 60_000, float(s * (number + 1))) for s in range(1, 360)
        ]
    return found


def ask(lake: LakeFiles, hours: int = 4) -> SourceAnswer:
    found = lake.over_windows(Function.SUM, UP, Grid(22 * HOUR, HOUR, hours, HOUR))
    assert found is not None
    return found


def test_the_same_windows_are_decoded_once(lake: LakeFiles, decoded: list[int]) -> None:
    first, rows = ask(lake), dict(lake.served)
    assert decoded == [8]  # of both days at once
    again = ask(lake)
    assert decoded == [8]
    assert again.labels == first.labels
    assert again.windows.values.tolist() == first.windows.values.tolist()
    assert dict(lake.served) == {frequency: 2 * count for frequency, count in rows.items()}


def test_other_windows_and_other_segments_are_not_taken_for_them(lake: LakeFiles, decoded: list[int]) -> None:
    first = ask(lake)
    assert ask(lake, 3).windows.values.tolist() == first.windows.values[:, :3].tolist()
    assert len(decoded) == 2
    labels = (("__name__", "up"), ("n", "2"))
    lake.series[labels] = [Sample(22 * HOUR - 1000, 7.0)]
    after = ask(lake)
    assert len(after.labels) == 3
    assert after.windows.values[2, 0] == 7.0
    assert after.windows.values[:2].tolist() == first.windows.values.tolist()
