"""The page about object storage, run as written: a whole stack whose lake is a bucket of an S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from resources.objects.store import open_store
from resources.settings import Settings
from tests.acceptance.test_documented_commands import ROOT, run, says, steps
from tests.support.s3_server import moto
from tests.support.slow_store import SlowStore, slow_store
from tests.support.stack_fixture import lakerunner, stack_settings, stop_stack, unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PAGE = ROOT / "docs" / "how-to-object-storage.md"
ENDPOINT = "http://127.0.0.1:9000"
LAKE = "s3://lake/production"


@dataclass(frozen=True)
class Site:
    data_dir: Path
    proxy: SlowStore
    output: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A stack that the page started, on ports of its own and with a server of ours at the page's address."""
    data_dir = tmp_path_factory.mktemp("on-s3")
    with moto() as server, slow_store(server.s3_endpoint) as proxy:
        ports = "\n".join(f"export {name}={port}" for name, port in unused_ports().items())
        page = [step.commands.replace(ENDPOINT, proxy.url) for step in steps(PAGE.read_text())]
        try:
            done = run("\n".join([ports, *page]), data_dir)
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
            yield Site(data_dir, proxy, done.stdout)
        finally:
            stop_stack(data_dir)


def test_the_page_works_as_written(site: Site) -> None:
    expected = [line for step in steps(PAGE.read_text()) for line in step.expected]
    assert len(expected) == 3
    assert [line for line in expected if not says(site.output, line)] == []


def test_segments_lie_in_the_bucket_and_nowhere_else(site: Site) -> None:
    settings = stack_settings(site.data_dir)
    assert settings.lake_url == LAKE
    keys = [found.key for chunk in open_store(LAKE, settings).list("db/acme") for found in chunk]
    assert len(keys) == 1
    assert list(site.data_dir.glob("lake/**/*.parquet")) == []
    assert site.proxy.counts.gets(keys[0]) > 0


def test_a_lake_that_cannot_be_read_is_refused_before_anything_starts(site: Site, tmp_path: Path) -> None:
    access = {"LAKERUNNER_S3_ACCESS_KEY_ID": "test", "LAKERUNNER_S3_SECRET_ACCESS_KEY": "test"}
    extra = {**access, "LAKERUNNER_S3_ENDPOINT": site.proxy.url}
    done = lakerunner(tmp_path, "up", "--detach", "--lake", "s3://no-such-bucket", extra=extra)
    assert done.returncode == 2
    assert "the lake s3://no-such-bucket cannot be read" in done.stderr
    assert not (tmp_path / "stack.env").exists()


def test_the_stack_remembers_where_its_lake_is(site: Site) -> None:
    remembered = Settings.load({"LAKERUNNER_DATA_DIR": str(site.data_dir)})
    assert (remembered.lake_url, remembered.s3_endpoint) == (LAKE, site.proxy.url)
    assert (site.data_dir / "stack.env").stat().st_mode & 0o777 == 0o600
