"""The quick form of `benchmarks.chaos`: a run, Spark and at last the whole stack die under load."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos import ORGS, QUICK, storm
from benchmarks.traffic import lake_content, unfinished
from tests.stack_fixture import stack_settings, start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lakerunner-chaos-"))
    try:
        start_stack(folder, ())
        yield folder
    finally:
        stop_stack(folder)
        shutil.rmtree(folder)


def test_every_row_is_there_exactly_once_after_three_kills(data_dir: Path) -> None:
    traffic, killed, _ = storm(data_dir, QUICK)
    settings = stack_settings(data_dir)
    content = lake_content(settings, ORGS, traffic.service)
    assert len(killed) == len(QUICK)
    assert content.messages == traffic.expected()
    assert content.rows == content.distinct_row_ids
    left = unfinished(settings)
    assert (left["objects"], left["parked"]) == (0, 0)
