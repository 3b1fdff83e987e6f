"""The health service answers load balancers: a service serves, does not, or is unknown here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from resources.grpc.calls import Call, CallError, Code, Method
from resources.proto.health import HealthCheckRequest, HealthCheckResponse
from resources.proto.parsing import NotAMessageError, parse

PATH = "/grpc.health.v1.Health/"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
MAX_BYTES = 4096
POLL_S = 1.0
_log = logging.getLogger(__name__)


def health_methods(services: Collection[str], serves: Callable[[], bool]) -> Mapping[str, Method]:
    """Return the methods by path; the empty name stands for the whole server."""
    known = {"", *services}

    async def check(call: Call) -> None:
        service = await _service(call)
        if service not in known:
            raise CallError(Code.NOT_FOUND, f"no service {service[:200]!r}")
        await call.send(_answer(SERVING if serves() else NOT_SERVING))

    async def watch(call: Call) -> None:
        service = await _service(call)
        last = 0
        while not (call.is_gone or call.is_draining):
            status = SERVICE_UNKNOWN if service not in known else SERVING if serves() else NOT_SERVING
            if status != last:
                await call.send(_answer(status))
            last = status
            await asyncio.sleep(POLL_S)

    return {
        f"{PATH}Check": Method(check, describe, is_cancellable=True),
        f"{PATH}Watch": Method(watch, describe, is_cancellable=True),
    }


def describe(error: Exception) -> CallError:
    """Turn an error of a method into a status."""
    if isinstance(error, CallError):
        return error
    if isinstance(error, NotAMessageError):
        return CallError(Code.INVALID_ARGUMENT, str(error))
    _log.error("unexpected error in a method of gRPC", exc_info=error)
    return CallError(Code.INTERNAL, "internal error; the log of the server has the details")


async def _service(call: Call) -> str:
    return str(parse(HealthCheckRequest, await call.message(MAX_BYTES)).service)


def _answer(status: int) -> bytes:
    return bytes(HealthCheckResponse(status=status).SerializeToString())
