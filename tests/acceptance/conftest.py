"""One whole stack for all acceptance tests: telemetry in, HTTP out, nothing replaced."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.traffic import Traffic
from resources.settings import Settings
from tests.support.stack_fixture import start_stack, stop_stack

ORGS = ("north", "south", "west")
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the one stack last: it need not idle while others run stacks of their own."""
    items.sort(key=lambda one: one.path.is_relative_to(HERE) and "stack" in getattr(one, "fixturenames", ()))


@pytest.fixture(scope="session")
def stack() -> Iterator[Settings]:
    data_dir = Path(tempfile.mkdtemp(prefix="lakerunner-acceptance-"))
    try:
        yield start_stack(data_dir, ())
    finally:
        stop_stack(data_dir)
        shutil.rmtree(data_dir)


@pytest.fixture(scope="session")
def traffic(stack: Settings) -> Traffic:
    """A sender for three organisations, each with a key."""
    made = Traffic(stack, ORGS)
    made.prepare()
    return made
