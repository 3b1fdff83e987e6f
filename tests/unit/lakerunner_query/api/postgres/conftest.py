"""One open door per module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.query.postgres_door import RunningDoor


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDoor]:
    with RunningDoor(tmp_path_factory.mktemp("door"), rows=3000) as running:
        yield running
