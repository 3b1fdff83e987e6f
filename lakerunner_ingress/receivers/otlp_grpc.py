"""OTLP/gRPC: the export services of the three signals go the way of OTLP/HTTP, errors become statuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from anyio import fail_after

from lakerunner_ingress.errors import IngressError
from lakerunner_ingress.receivers import otlp
from lakerunner_ingress.receivers.forms import Form, Push
from lakerunner_ingress.receivers.receive import BODY_TIMEOUT_S, Receivers
from lakerunner_ingress.receivers.refusals import SlowError, TooLargeError, UnsupportedError, refusal_of
from resources.grpc.calls import IDENTITY, Call, CallError, Code, MessageHead, Method
from resources.grpc.health import health_methods
from resources.grpc.server import GrpcServer
from resources.http_server import authority_check
from resources.lake.layout import Signal
from resources.settings import Settings

OTLP_GRPC = "otlp_grpc"
SERVICES = {
    "opentelemetry.proto.collector.logs.v1.LogsService": Signal.LOGS,
    "opentelemetry.proto.collector.metrics.v1.MetricsService": Signal.METRICS,
    "opentelemetry.proto.collector.trace.v1.TraceService": Signal.TRACES,
}
ENCODINGS = ("gzip", "deflate", "zstd")
"""Encodings that mean in gRPC what they mean in HTTP: snappy is framed here and a block there."""
CODES = {408: Code.DEADLINE_EXCEEDED, 415: Code.UNIMPLEMENTED, 429: Code.RESOURCE_EXHAUSTED}
"""Codes that calls have and that `google.rpc.Status` over HTTP has not."""
ELSEWHERE = (
    "OTLP logs, metrics and traces are exported here (Export of the version v1 of each service); "
    "profiles are not stored, and queries go to the query API (port {query_port})"
)


@dataclass(frozen=True, slots=True)
class CallSource:
    """A push in the message of a gRPC call."""

    call: Call
    head: MessageHead

    @property
    def headers(self) -> Mapping[str, str]:
        return self.call.metadata

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        if self.head.size > most:
            raise TooLargeError(f"a message of {self.head.size} bytes: at most {most}")
        async for piece in self.call.pieces(self.head.size):
            yield piece


def open_grpc(settings: Settings, receivers: Receivers) -> GrpcServer:
    """Return the gRPC server of an ingress."""
    exports = {f"/{service}/Export": _export(receivers, signal) for service, signal in SERVICES.items()}

    def serves() -> bool:
        try:
            receivers.check_outage()
        except IngressError:
            return False
        return True

    return GrpcServer(
        {**exports, **health_methods(SERVICES, serves)},
        idle_s=float(settings.http_keep_alive_s),
        elsewhere=ELSEWHERE.format(query_port=settings.query_port),
        knows_host=authority_check(settings, settings.ingress_host),
    )


def describe(error: Exception) -> CallError:
    """Turn an error into a status; those after which a push may be sent again say when."""
    if isinstance(error, CallError):
        return error
    refusal = refusal_of(error)
    code = CODES.get(refusal.status) or Code(otlp.GRPC_CODES.get(refusal.status, otlp.INTERNAL))
    wait = refusal.headers.get("Retry-After")
    return CallError(code, refusal.message, None if wait is None else float(wait))


def _export(receivers: Receivers, signal: Signal) -> Method:
    """Return the method of a signal's service."""

    async def export(call: Call) -> None:
        head = await _open_message(call)
        encoding = call.encoding if head.is_compressed else IDENTITY
        if encoding not in {IDENTITY, *ENCODINGS}:
            raise UnsupportedError(f"grpc-encoding {encoding[:32]!r}: expected {', '.join(ENCODINGS)}")
        push = Push(signal, Form.OTLP_PROTOBUF, encoding)
        received = await receivers.accept(CallSource(call, head), push, OTLP_GRPC)
        receivers.telemetry.count_answer(OTLP_GRPC, Code.OK.value)
        await call.send(otlp.answer(received)[0])

    def describe_and_count(error: Exception) -> CallError:
        found = describe(error)
        receivers.telemetry.count_answer(OTLP_GRPC, found.code.value, found.code.name.lower())
        return found

    return Method(export, describe_and_count, is_cancellable=False, encodings=ENCODINGS)


async def _open_message(call: Call) -> MessageHead:
    try:
        with fail_after(BODY_TIMEOUT_S):
            return await call.open_message()
    except TimeoutError as error:
        raise SlowError(f"no message within {BODY_TIMEOUT_S:.0f} s") from error
