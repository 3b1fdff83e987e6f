"""The quick form of `benchmarks.chaos`: runs, Spark, a query worker and the whole stack die under load."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos_stack import CHAOS_SETTINGS, COMPONENTS, QUICK_DECK
from benchmarks.chaos_storm import plan_of, storm
from benchmarks.chaos_verdict import judge, records
from benchmarks.report import tell
from tests.stack_fixture import start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lakerunner-chaos-"))
    try:
        start_stack(folder, COMPONENTS, CHAOS_SETTINGS)
        yield folder
    finally:
        stop_stack(folder)
        shutil.rmtree(folder)


def test_every_tier_holds_exactly_what_was_sent_after_five_kills(data_dir: Path) -> None:
    found = storm(data_dir, plan_of(quick=True))
    verdict = judge(found)
    figures = records(found, verdict)
    tell("chaos", figures, None)  # shown when the test fails
    assert len(found.killed) == len(QUICK_DECK)
    assert [figure for figure in figures if figure.ok is False] == []
    assert verdict.log_rows_lost == verdict.log_rows_doubled == 0
    assert verdict.samples_lost == verdict.samples_doubled == verdict.same_ids == 0
    assert found.left.settled
    assert found.left.parked == 0
