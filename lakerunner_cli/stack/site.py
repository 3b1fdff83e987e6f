"""The site of a stack: directory, ports, secrets and Java, chosen once before anything starts.

Components compute their command and environment from the site. Values that other shells need are written to
`stack.env` (mode 600), which `Settings.load` reads; secrets in it survive restarts.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import ports
from lakerunner_cli.stack.java import Java, find_java
from lakerunner_cli.stack.paths import StackPaths
from resources.settings import CREDENTIAL_PREFIX, PREFIX, Settings, process_environment, read_env_file

HOST = ports.HOST
POSTGRES_USER = "lakerunner"
DEFINITIONS = "lakerunner_assets.definitions"
LONGEST_SOCKET = 100
"""Bytes of a socket's path: systems allow 104 or 108."""
REMEMBERED = (
    "index_dsn", "lake_url", "kafka_bootstrap", "spark_remote", "worker_urls",
    "s3_endpoint", "s3_region", "s3_access_key_id", "s3_secret_access_key",
    "internal_token", "webhook_token", "spark_token", "webserver_token",
    "ingress_port", "ingress_grpc_port", "query_port", "query_flight_port", "query_postgres_port",
    "worker_port", "webserver_port", "postgres_port", "kafka_port", "spark_port",
)  # fmt: skip

FURTHER_PORTS = {"ingress_grpc": "ingress", "query_flight": "query_api", "query_postgres": "query_api"}
"""Ports beside the one that bears the name of its component, by that component."""


@dataclass(frozen=True, slots=True)
class Site:
    settings: Settings
    paths: StackPaths
    ports: Mapping[str, int]
    postgres_password: str
    java: Java | None
    definitions_module: str = DEFINITIONS

    def dsn(self, database: str) -> str:
        user = f"{POSTGRES_USER}:{self.postgres_password}"
        return f"postgresql://{user}@{HOST}:{self.ports['postgres']}/{database}"

    @property
    def code_server_socket(self) -> Path:
        return socket_path(self.paths.root / "dagster" / "code_server.sock")

    def environment(self) -> dict[str, str]:
        """Environment of every child: the caller's, with the stack's settings as LAKERUNNER_*."""
        kept = {k: v for k, v in process_environment().items() if not _is_setting(k)}
        return {**kept, **self.settings.child_environment(), **self._tool_environment()}

    def _tool_environment(self) -> dict[str, str]:
        found = {
            "DAGSTER_HOME": str(self.paths.root / "dagster"),
            "DAGSTER_PG_HOST": HOST,
            "DAGSTER_PG_PORT": str(self.ports["postgres"]),
            "DAGSTER_PG_USERNAME": POSTGRES_USER,
            "DAGSTER_PG_PASSWORD": self.postgres_password,
            "DAGSTER_PG_DB": "dagster",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONUNBUFFERED": "1",
        }
        return {**found, "JAVA_HOME": str(self.java.home)} if self.java else found


def prepare_site(
    settings: Settings,
    announce: Callable[[str], None],
    components: Collection[str] | None = None,
    definitions_module: str = DEFINITIONS,
    take_port: Callable[[int], bool] = ports.is_free,
) -> Site:
    """Prepare directories, ports (of `components`, or of all) and secrets, and write `stack.env`."""
    paths = StackPaths(settings.data_dir)
    paths.create()
    password = _stored_password(paths) or secrets.token_urlsafe(24)
    java = find_java(process_environment(), paths.root / "java")
    chosen = _choose_ports(settings, announce, components, take_port)
    site = Site(settings, paths, chosen, password, java, definitions_module)
    site = replace(site, settings=_child_settings(site))
    write_env_file(site)
    return site


def write_env_file(site: Site) -> None:
    environment = site.settings.child_environment()
    names = [PREFIX + name.upper() for name in REMEMBERED]
    aside = site.paths.env_file.with_suffix(".tmp")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write("# Written by `lakerunner up`. Holds secrets; read by every lakerunner command.\n")
        out.writelines(f"{name}={environment[name]}\n" for name in names)
    aside.replace(site.paths.env_file)


def _choose_ports(
    settings: Settings,
    announce: Callable[[str], None],
    components: Collection[str] | None,
    take_port: Callable[[int], bool],
) -> dict[str, int]:
    wanted = preferred_ports(settings)
    needed = {
        name: port
        for name, port in wanted.items()
        if components is None or FURTHER_PORTS.get(name, name) in components
    }
    chosen = {**wanted, **ports.choose(needed, announce, take_port)}
    controller = {"kafka_controller": chosen["kafka"] + 1}  # the broker speaks to itself there
    return {**chosen, **ports.choose(controller, lambda _text: None, take_port)}


def preferred_ports(settings: Settings) -> dict[str, int]:
    second = urlsplit(settings.worker_urls.partition(",")[2]).port or settings.worker_port + 1
    return {
        "postgres": settings.postgres_port,
        "kafka": settings.kafka_port,
        "spark": settings.spark_port,
        "webserver": settings.webserver_port,
        "ingress": settings.ingress_port,
        "ingress_grpc": settings.ingress_grpc_port or 4317,
        "query_api": settings.query_port,
        "query_flight": settings.query_flight_port or 4382,
        "query_postgres": settings.query_postgres_port or 4385,
        "query_worker_1": settings.worker_port,
        "query_worker_2": second,
    }


def _child_settings(site: Site) -> Settings:
    """Return the settings of the children: every address points into this stack."""
    given, chosen = site.settings, site.ports
    workers = [f"http://{HOST}:{chosen[name]}" for name in ("query_worker_1", "query_worker_2")]
    return replace(
        given,
        index_dsn=site.dsn("lakerunner"),
        lake_url=given.lake_url or f"file://{site.paths.root / 'lake'}",
        kafka_bootstrap=f"{HOST}:{chosen['kafka']}",
        # by this name only does PySpark send its token without TLS
        spark_remote=f"sc://localhost:{chosen['spark']}",
        worker_urls=",".join(workers),
        ingress_port=chosen["ingress"],
        ingress_grpc_port=chosen["ingress_grpc"],
        query_port=chosen["query_api"],
        query_flight_port=chosen["query_flight"],
        query_postgres_port=chosen["query_postgres"],
        worker_port=chosen["query_worker_1"],
        webserver_port=chosen["webserver"],
        postgres_port=chosen["postgres"],
        kafka_port=chosen["kafka"],
        spark_port=chosen["spark"],
        internal_token=given.internal_token or secrets.token_urlsafe(32),
        webhook_token=given.webhook_token or secrets.token_urlsafe(32),
        spark_token=given.spark_token or secrets.token_urlsafe(32),
        webserver_token=given.webserver_token or secrets.token_urlsafe(32),
    )


def socket_path(wanted: Path) -> Path:
    """Return a path that the system accepts for a Unix socket, in a directory that is closed to others."""
    if len(os.fsencode(wanted)) <= LONGEST_SOCKET:
        return wanted
    digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"lakerunner-{os.getuid()}-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StackError(f"{folder} is not a private directory of this user; remove it, or set TMPDIR")
    return folder / wanted.name


def _stored_password(paths: StackPaths) -> str:
    """Return the password of the last run; only `stack.env` counts, since another index has another one."""
    dsn = read_env_file(paths.env_file).get("LAKERUNNER_INDEX_DSN", "")
    return urlsplit(dsn).password or ""


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and not name.startswith(CREDENTIAL_PREFIX)


def download_dir(settings: Settings) -> Path:
    return settings.download_dir.expanduser()
