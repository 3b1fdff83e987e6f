"""Spark distributes tasks: paths go through it, rows never do.

A task is one opaque payload; a module-level function turns it into one opaque result inside a Python worker.
The session is Spark Connect when `spark_remote` is set and a classic local one otherwise. Errors are told
apart by type: the server is away (the work is innocent) or a task died (some input may be guilty).
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from resources.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

Work = Callable[[bytes], bytes]
SESSION_SLOT_S = 1800
"""Seconds of a session slot: a server closes a session that nobody used for an hour, and its id stays dead.
"""
LOST = ("INVALID_HANDLE", "RESPONSE_ALREADY_RECEIVED", "OPERATION_CANCELED")
"""Conditions of a server that forgot our session or job, or was told to stop it: no task is to blame."""
CONNECT_RETRIES: dict[str, Any] = {"max_retries": 6, "max_backoff": 2000, "jitter": 200}


class SparkUnavailableError(RuntimeError):
    """Spark server that cannot be reached or went away; nothing is known about the tasks."""


class TaskCrashError(RuntimeError):
    """Task that died without returning a result: its input may be what kills it."""


class SparkTasks:
    """Runs a list of payloads as Spark tasks and returns their results in order."""

    def __init__(self, settings: Settings, session: Callable[[], SparkSession] | None = None) -> None:
        self._settings = settings
        self._open = session or (lambda: open_session(settings))
        self._session: SparkSession | None = None

    def connect(self) -> SparkSession:
        """Open the session, checking first that the server is reachable: a client of a dead server retries
        for minutes.
        """
        if self._session is None:
            if self._settings.spark_remote:
                check_reachable(self._settings.spark_remote)
            with translated():
                self._session = self._open()
                if self._settings.spark_remote:
                    limit_retries(self._session)
        return self._session

    def run(self, work: Work, payloads: Sequence[bytes], tags: Sequence[str]) -> list[bytes]:
        """Run `work(p)` for each payload as a Spark task, in order; any of the tags can interrupt it."""
        if not payloads:
            return []
        session = self.connect()
        with (
            _deadline(session, tags[0], self._settings.cook_job_max_s),
            translated(),
            tagged(session, tags),
        ):
            count = len(payloads)
            tasks = session.range(0, count, 1, count)
            answers = tasks.mapInArrow(partial(_in_worker, work, tuple(payloads)), "task long, result binary")
            table = answers.toArrow().sort_by("task")
        results: list[bytes] = table.column("result").to_pylist()
        if len(results) != count:
            raise TaskCrashError(f"{count} tasks gave {len(results)} results")
        return results

    def interrupt(self, tag: str) -> None:
        """Stop the tasks that an earlier attempt may still be running."""
        with translated():
            self.connect().interruptTag(tag)


def open_session(settings: Settings) -> SparkSession:
    """Open Spark Connect when configured, a classic local session otherwise."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in session_config(settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_config(settings: Settings) -> dict[str, str]:
    """Return the configuration for the session builder of `LazyPySparkResource` and `open_session`."""
    if settings.spark_remote:
        return {"spark.remote": shared_session(settings.spark_remote, time.time(), settings.spark_token)}
    return {
        "spark.api.mode": "classic",
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }


def check_reachable(remote: str, timeout_s: float = 3.0) -> None:
    parts = urlsplit(remote)
    try:
        socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 15002), timeout_s).close()
    except OSError as error:
        raise SparkUnavailableError(
            f"no Spark Connect server at {parts.hostname}:{parts.port}: {error}"
        ) from error


def shared_session(remote: str, now_s: float, token: str = "", of: str = "") -> str:
    """Return the session that all clients of a server share. The second run starts in 0.2 s instead of 1.5 s.

    Its name changes every half hour, so that no idle night leaves everybody with a closed session. A token is
    sent in the clear to the host `localhost` only; PySpark speaks TLS to every other one.
    """
    digest = hashlib.sha256(f"{remote} {now_s // SESSION_SLOT_S:.0f}{of}".encode()).digest()[:16]
    shared = uuid.UUID(bytes=digest, version=4)
    secret = f";token={quote(token, safe='')}" if token else ""
    return f"{remote.rstrip('/')}/;user_id=lakerunner;session_id={shared}{secret}"


def _in_worker(
    work: Work, payloads: tuple[bytes, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict(
                {
                    "task": pa.array([task], pa.int64()),
                    "result": pa.array([work(payloads[task])], pa.binary()),
                }
            )


def limit_retries(session: SparkSession) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(**CONNECT_RETRIES)])


@contextlib.contextmanager
def _deadline(session: SparkSession, tag: str, seconds: float) -> Iterator[None]:
    """Interrupt a job that does not end; one of its tasks is to blame."""
    late = threading.Event()

    def interrupt() -> None:
        late.set()
        session.interruptTag(tag)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (SparkUnavailableError, TaskCrashError) as error:
        if late.is_set():  # whatever Spark calls the end of a job that we interrupted
            raise TaskCrashError(f"no result within {seconds:.0f} s") from error
        raise
    finally:
        timer.cancel()


@contextlib.contextmanager
def tagged(session: SparkSession, tags: Sequence[str]) -> Iterator[None]:
    for tag in tags:
        session.addTag(tag)
    try:
        yield
    finally:
        session.clearTags()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Convert Spark's errors to ours, by status code and type; never by message text."""
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    try:
        yield
    except grpc.RpcError as error:
        raise SparkUnavailableError(f"the Spark server went away: {error}") from error
    except SparkConnectGrpcException as error:
        if error.getGrpcStatusCode() is grpc.StatusCode.INTERNAL and not _is_lost(error):
            raise TaskCrashError(str(error)[:2000]) from error
        raise SparkUnavailableError(f"the Spark server did not take the job: {error}") from error
    except PySparkException as error:
        if _is_lost(error):
            raise SparkUnavailableError(f"the Spark server was restarted: {error}") from error
        raise TaskCrashError(str(error)[:2000]) from error


def _is_lost(error: PySparkException) -> bool:
    return (error.getCondition() or "").startswith(LOST)
