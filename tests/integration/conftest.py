"""A real S3 server for the tests that talk to one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resources.settings import Settings
from tests.support.s3_server import moto


@pytest.fixture(scope="session")
def s3() -> Iterator[Settings]:
    with moto() as settings:
        yield settings
