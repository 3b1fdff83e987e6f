"""A real S3 server, and an ingress as a process, for the tests that talk to one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from confluent_kafka import Producer as NativeProducer

from migrations.runner import apply
from resources.kafka.reader import close_readers
from resources.settings import Settings
from tests.support.ingress_process import Ingress, create_organisation, running
from tests.support.patience import PATIENCE_S
from tests.support.s3_server import moto


@pytest.fixture(scope="session")
def s3() -> Iterator[Settings]:
    with moto() as settings:
        yield settings


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    mock = NativeProducer({"test.mock.num.brokers": 1, "log_level": 0})
    found = next(iter(mock.list_topics(timeout=PATIENCE_S).brokers.values()))
    yield f"{found.host}:{found.port}"
    close_readers()


@pytest.fixture(scope="module")
def shared(postgres_server: str, broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ingress]:
    """One process for the tests that do not end it."""
    name = f"receivers_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    base, _, query = postgres_server.partition("?")
    dsn = f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")
    apply(dsn)
    with running(dsn, broker, tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.fixture
def ingress(shared: Ingress) -> Ingress:
    """The shared process, for an organisation of this test's own."""
    org = f"o{uuid.uuid4().hex[:12]}"
    create_organisation(shared.settings.index_dsn, org)
    return Ingress(shared.settings, shared.bucket, shared.process, org)
