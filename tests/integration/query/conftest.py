"""Fixtures of query tests: a lake of real segments, and the processes that answer from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from tests.support.query.lake import (
    Client,
    Lake,
    Stack,
    start_workers,
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def stack(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    yield from start_workers(tmp_path_factory.mktemp("data"), lake.folder, 1)


@pytest.fixture(scope="module")
def client(lake: Lake, stack: Stack) -> Iterator[Client]:
    lake.add_org("acme", "key-acme")
    with TestClient(create_app(stack.settings, lake.index)) as http:
        yield Client(http, "key-acme")
