"""Fixtures of query tests: a lake of real segments, and the processes that answer from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from tests.support.query.homes import lakes_on_s3
from tests.support.query.lake import (
    Client,
    Lake,
    Stack,
    start_workers,
)
from tests.support.slow_store import SlowStore

TWICE = ("test_log_queries", "test_prometheus", "test_loki_metadata")
"""Modules that `make test` runs on files and on S3; `--lake s3` runs every module there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kind = metafunc.config.getoption("--lake")
    if "lake_home" in metafunc.fixturenames:
        both = ["file", "s3"] if metafunc.module.__name__.endswith(TWICE) else ["file"]
        metafunc.parametrize("lake_home", both if kind == "both" else [kind], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def lake_home(request: pytest.FixtureRequest) -> Iterator[SlowStore | None]:
    """The proxy before the S3 server where lakes of the module's tests lie; None is their own disk."""
    if request.param == "file":
        yield None
        return
    with lakes_on_s3(request.getfixturevalue("s3")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def lake(lake_home: SlowStore | None, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    del lake_home  # a lake of its own for each
    return Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def stack(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    yield from start_workers(tmp_path_factory.mktemp("data"), lake.folder, 1)


@pytest.fixture(scope="module")
def client(lake: Lake, stack: Stack) -> Iterator[Client]:
    lake.add_org("acme", "key-acme")
    with TestClient(create_app(stack.settings, lake.index)) as http:
        yield Client(http, "key-acme")
