"""The quick form of `benchmarks.fire`: shuffled notifications, poisoned objects, three runs killed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.fire import judge, outcome, storm
from tests.support.stack_fixture import stack_settings, start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]
OBJECTS, KILLS, SECONDS = 40, 3, 20.0


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lakerunner-fire-"))
    try:
        start_stack(folder, ())
        yield folder
    finally:
        stop_stack(folder)
        shutil.rmtree(folder)


def test_every_object_has_exactly_its_rows_and_every_poisoned_one_a_reason(data_dir: Path) -> None:
    fire, _ = storm(data_dir, OBJECTS, KILLS, SECONDS)
    records = judge(fire, outcome(stack_settings(data_dir)))
    assert fire.killed == KILLS
    assert fire.announced > len(fire.made) == OBJECTS
    wrong = {record.id: (record.value, record.counters) for record in records if record.ok is False}
    assert not wrong
