"""Routes of the push protocols; each handler answers errors in the form of its protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from litestar import Request, Response, Router, post
from litestar.exceptions import InternalServerException

from lakerunner_ingress.addresses import PROFILES_ANSWER
from lakerunner_ingress.openapi import LOKI_PUSH, OTLP_PUSH, PROFILES, REMOTE_WRITE_PUSH, documented
from lakerunner_ingress.receivers import loki, otlp, remote_write
from lakerunner_ingress.receivers.forms import CheckedPush, Form, Push
from lakerunner_ingress.receivers.receive import Receivers
from lakerunner_ingress.receivers.refusals import BadRequestError, Refusal, TooLargeError, refusal_of
from resources.lake.layout import Signal

OTLP, REMOTE_WRITE, LOKI = "otlp", "remote_write", "loki"
AnyRequest = Request[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class HttpSource:
    """A push in the body of an HTTP request."""

    request: AnyRequest

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        size = int(self.request.headers.get("content-length", "0") or "0")
        try:
            if size <= most:
                size = 0
                async for part in self.request.stream():
                    size += len(part)
                    if size > most:
                        break
                    yield part
        except InternalServerException as error:
            raise BadRequestError("the connection ended before the body did") from error
        if size > most:
            raise TooLargeError(f"body of more than {most} bytes")


@post(
    [f"{prefix}/v1/{signal.value}" for prefix in ("", "/otlp") for signal in Signal],
    status_code=200,
    operation_class=documented(OTLP_PUSH),
)
async def push_otlp(request: AnyRequest, receivers: Receivers) -> Response[bytes]:
    """Take OTLP/HTTP in protobuf or JSON; the answer has the encoding of the request."""
    content_type = request.headers.get("content-type", "")
    signal = Signal(request.url.path.rstrip("/").rpartition("/")[2])
    try:
        form = otlp.form_of(content_type)
        push = Push(signal, form, _encoding(request))
        received = await receivers.accept(HttpSource(request), push, OTLP)
    except Exception as error:  # noqa: BLE001 - every error has an answer in this protocol
        refusal = _refusal(receivers, OTLP, error)
        body, media = otlp.refuse(refusal, content_type)
        return Response(body, status_code=refusal.status, media_type=media, headers=refusal.headers)
    receivers.telemetry.count_answer(OTLP, 200)
    body, media = otlp.answer(received)
    return Response(body, status_code=200, media_type=media)


@post("/api/v1/write", operation_class=documented(REMOTE_WRITE_PUSH))
async def push_remote_write(request: AnyRequest, receivers: Receivers) -> Response[bytes]:
    """Take Prometheus remote write, 1.0 and 2.0."""
    try:
        message = remote_write.message_of(request.headers.get("content-type", ""))
        remote_write.check_encoding(_encoding(request))
        push = Push(Signal.METRICS, Form.REMOTE_WRITE, "snappy", message)
        received = await receivers.accept(HttpSource(request), push, REMOTE_WRITE)
    except Exception as error:  # noqa: BLE001 - see above
        return _text(_refusal(receivers, REMOTE_WRITE, error))
    return _success(receivers, REMOTE_WRITE, received)


@post("/loki/api/v1/push", operation_class=documented(LOKI_PUSH))
async def push_loki(request: AnyRequest, receivers: Receivers) -> Response[bytes]:
    """Take Loki push in protobuf (snappy) or JSON."""
    try:
        json = loki.is_json(request.headers.get("content-type", ""))
        encoding = loki.encoding_of(_encoding(request), json)
        push = Push(Signal.LOGS, Form.LOKI_PUSH, encoding, loki.JSON if json else "", receivers.time_bounds())
        received = await receivers.accept(HttpSource(request), push, LOKI)
    except Exception as error:  # noqa: BLE001 - see above
        return _text(_refusal(receivers, LOKI, error))
    return _success(receivers, LOKI, received)


@post(
    [f"{prefix}/{version}/profiles" for prefix in ("", "/otlp") for version in ("v1", "v1development")],
    status_code=501,
    sync_to_thread=False,
    operation_class=documented(PROFILES),
)
def push_profiles(request: AnyRequest) -> Response[bytes]:
    """Refuse OTLP profiles for good: exporters drop them and say why."""
    content_type = request.headers.get("content-type", "")
    body, media = otlp.refuse(Refusal(501, "unimplemented", PROFILES_ANSWER), content_type)
    return Response(body, status_code=501, media_type=media)


def push_routes() -> Router:
    """Return the routes; `receiver_body_max_bytes` limits bodies while they are read."""
    handlers = [push_otlp, push_remote_write, push_loki, push_profiles]
    return Router("/", route_handlers=handlers, request_max_body_size=None)


def _encoding(request: AnyRequest) -> str:
    return str(request.headers.get("content-encoding", ""))


def _success(receivers: Receivers, protocol: str, received: CheckedPush) -> Response[bytes]:
    """Answer 204, or 400 when a part was refused: these protocols have no other way to report it."""
    if received.reason:
        refusal = Refusal(400, "partial", received.reason, received.headers)
        receivers.telemetry.count_answer(protocol, 400, refusal.code)
        return _text(refusal)
    receivers.telemetry.count_answer(protocol, 204)
    return Response(b"", status_code=204, headers=received.headers, media_type="text/plain")


def _refusal(receivers: Receivers, protocol: str, error: Exception) -> Refusal:
    refusal = refusal_of(error)
    receivers.telemetry.count_answer(protocol, refusal.status, refusal.code)
    return refusal


def _text(refusal: Refusal) -> Response[bytes]:
    body = f"{refusal.message}\n".encode()
    return Response(body, status_code=refusal.status, media_type="text/plain", headers=refusal.headers)
