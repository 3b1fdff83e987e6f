"""A short form of `benchmarks.chaos`: a run, Spark and the whole stack die under load."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos_stack import CHAOS_SETTINGS, COMPONENTS, SHORT_DECK
from benchmarks.chaos_storm import Plan, storm
from benchmarks.chaos_verdict import judge, records
from benchmarks.report import tell
from tests.support.stack_fixture import start_stack, stop_stack

SEED = 7
MAY_NOT_HAPPEN = {
    *{"compacted", "sealed", "carvings", "swept", "stuck"},
    *{"published", "merged", "rolled", "carved"},
}
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


def test_every_tier_holds_exactly_what_was_sent_after_three_kills(data_dir: Path) -> None:
    """What a storm of this length may not get to (a seal, a deletion) is no failure; wrong content is."""
    found = storm(
        data_dir,
        Plan(
            seconds=20.0,
            deck=SHORT_DECK,
            seed=SEED,
            evidence_s=0.0,
            orgs=("north",),
            old_hours=(),
            until_merged=False,
            must_progress=False,
        ),
    )
    verdict = judge(found)
    figures = records(found, verdict)
    tell("chaos", figures, None)  # shown when the test fails
    assert len(found.killed) == len(SHORT_DECK)
    assert [figure for figure in figures if figure.ok is False and figure.id not in MAY_NOT_HAPPEN] == []
    assert verdict.log_rows_lost == verdict.log_rows_doubled == 0
    assert verdict.samples_lost == verdict.samples_doubled == verdict.same_ids == 0
    assert found.left.settled(merges=False)
    assert found.left.parked == 0
