"""Whose fault an error of Spark is: a task's (its input may be guilty) or the server's (nothing is)."""

from __future__ import annotations

import grpc
import pytest
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql.connect.client import DefaultChannelBuilder

from resources.settings import Settings
from resources.spark import SESSION_SLOT_S, SparkTasks, SparkUnavailableError, TaskCrashError, shared_session

REMOTE = "sc://127.0.0.1:15002"


def grpc_error(condition: str | None, status: grpc.StatusCode) -> SparkConnectGrpcException:
    return SparkConnectGrpcException("it failed", errorClass=condition, grpc_status_code=status)


def raised_for(error: Exception) -> type[Exception]:
    def broken() -> None:
        raise error

    tasks = SparkTasks(Settings(), session=broken)
    with pytest.raises((SparkUnavailableError, TaskCrashError)) as caught:
        tasks.connect()
    return caught.type


@pytest.mark.parametrize("condition", ["SESSION_CLOSED", "SESSION_CHANGED", "SESSION_NOT_FOUND"])
def test_a_closed_session_blames_no_object(condition: str) -> None:
    """The server closes idle sessions with an INTERNAL error, the status of a task that died."""
    error = grpc_error(f"INVALID_HANDLE.{condition}", grpc.StatusCode.INTERNAL)
    assert raised_for(error) is SparkUnavailableError


def test_a_server_restarted_in_mid_answer_blames_no_object() -> None:
    parameters = {"error_type": "INVALID_HANDLE.OPERATION_NOT_FOUND"}
    error = PySparkRuntimeError(errorClass="RESPONSE_ALREADY_RECEIVED", messageParameters=parameters)
    assert raised_for(error) is SparkUnavailableError


def test_a_task_that_died_may_be_its_objects_fault() -> None:
    assert raised_for(grpc_error(None, grpc.StatusCode.INTERNAL)) is TaskCrashError
    assert raised_for(PySparkException("a worker exited")) is TaskCrashError
    assert raised_for(grpc_error(None, grpc.StatusCode.UNAVAILABLE)) is SparkUnavailableError


def test_a_session_is_shared_for_a_while_and_never_outlives_the_patience_of_the_server() -> None:
    first = shared_session(REMOTE, 10 * SESSION_SLOT_S)
    assert first == shared_session(REMOTE, 11 * SESSION_SLOT_S - 1)
    assert first != shared_session(REMOTE, 11 * SESSION_SLOT_S)


def test_a_token_is_part_of_the_address_and_not_of_the_session() -> None:
    plain, with_token = shared_session(REMOTE, 0), shared_session("sc://localhost:15002", 0, "a;b=c")
    assert "token" not in plain
    channel = DefaultChannelBuilder(with_token)
    assert (channel.token, channel.host) == ("a;b=c", "localhost")
    assert shared_session("sc://localhost:15002", 0) == with_token.partition(";token=")[0]
