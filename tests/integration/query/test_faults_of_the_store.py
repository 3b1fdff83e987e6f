"""Random queries on S3 where ranges fail: answers are right, declared partial or errors, never short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.object_store_faults import TwoHomes, two_homes
from resources.settings import Settings
from tests.support.query.homes import USUAL
from tests.support.slow_store import Conditions

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, s3: Settings) -> Iterator[TwoHomes]:
    folder: Path = tmp_path_factory.mktemp("homes")
    with two_homes(folder, 1, s3, USUAL, retries=1) as found:
        yield found


def test_answers_are_right_or_say_that_they_are_not(homes: TwoHomes) -> None:
    homes.proxy.conditions = USUAL
    tally = homes.run(seed=3, count=60)
    assert tally.faults == []
    assert tally.outcomes["right"] > 30
    assert tally.injected > 0


def test_where_nothing_can_be_read_no_answer_seems_complete(homes: TwoHomes) -> None:
    """An answer may still be right where no segment was needed."""
    homes.proxy.conditions = Conditions(failing=1.0, faults=("503", "reset", "truncated"))
    tally = homes.run(seed=4, count=40)
    assert tally.faults == []
    assert tally.outcomes["partial"] + tally.outcomes["error"] > 5
