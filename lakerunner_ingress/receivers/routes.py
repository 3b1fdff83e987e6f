"""Routes of the push protocols; each handler answers errors in the form of its protocol."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, Router, post

from lakerunner_ingress.receivers import loki, otlp, remote_write
from lakerunner_ingress.receivers.forms import CheckedPush
from lakerunner_ingress.receivers.receive import Push, Receivers
from lakerunner_ingress.receivers.refusals import Refusal, refusal_of
from resources.lake.layout import Signal

OTLP, REMOTE_WRITE, LOKI = "otlp", "remote_write", "loki"
AnyRequest = Request[Any, Any, Any]


@post([f"{prefix}/v1/{signal.value}" for prefix in ("", "/otlp") for signal in Signal], status_code=200)
async def push_otlp(request: AnyRequest, receivers: Receivers) -> Response[bytes]:
    """Take OTLP/HTTP in protobuf or JSON; the answer has the encoding of the request."""
    content_type = request.headers.get("content-type", "")
    signal = Signal(request.url.path.rstrip("/").rpartition("/")[2])
    try:
        form = otlp.form_of(content_type)
        push = Push(OTLP, _encoding(request), lambda data: otlp.read_otlp(data, signal, form))
        received = await receivers.accept(request, push)
    except Exception as error:  # noqa: BLE001 - every error has an answer in this protocol
        refusal = _refusal(receivers, OTLP, error)
        body, media = otlp.refuse(refusal, content_type)
        return Response(body, status_code=refusal.status, media_type=media, headers=refusal.headers)
    receivers.telemetry.count_answer(OTLP, 200)
    body, media = otlp.answer(received)
    return Response(body, status_code=200, media_type=media)


@post("/api/v1/write")
async def push_remote_write(request: AnyRequest, receivers: Receivers) -> Response[bytes]:
    """Take Prometheus remote write, 1.0 and 2.0."""
    written: dict[str, str] = {}

    def check(data: bytes) -> CheckedPush:
        received, headers = remote_write.read_remote_write(data, message)
        written.update(headers)
        return received

    try:
        message = remote_write.message_of(request.headers.get("content-type", ""))
        remote_write.check_encoding(_encoding(request))
        received = await receivers.accept(request, Push(REMOTE_WRITE, "snappy", check))
    except Exception as error:  # noqa: BLE001 - see above
        return _text(_refusal(receivers, REMOTE_WRITE, error))
    return _success(receivers, REMOTE_WRITE, received, written)


@post("/loki/api/v1/push")
async def push_loki(request: AnyRequest, receivers: Receivers) -> Response[bytes]:
    """Take Loki push in protobuf (snappy) or JSON."""
    try:
        json = loki.is_json(request.headers.get("content-type", ""))
        push = Push(LOKI, loki.encoding_of(_encoding(request), json), lambda data: loki.read_loki(data, json))
        received = await receivers.accept(request, push)
    except Exception as error:  # noqa: BLE001 - see above
        return _text(_refusal(receivers, LOKI, error))
    return _success(receivers, LOKI, received, {})


def push_routes() -> Router:
    """Return the routes; `receiver_body_max_bytes` limits bodies while they are read."""
    return Router("/", route_handlers=[push_otlp, push_remote_write, push_loki], request_max_body_size=None)


def _encoding(request: AnyRequest) -> str:
    return str(request.headers.get("content-encoding", ""))


def _success(
    receivers: Receivers, protocol: str, received: CheckedPush, headers: dict[str, str]
) -> Response[bytes]:
    """Answer 204, or 400 when a part was refused: these protocols have no other way to report it."""
    if received.reason:
        refusal = Refusal(400, "partial", received.reason, headers)
        receivers.telemetry.count_answer(protocol, 400, refusal.code)
        return _text(refusal)
    receivers.telemetry.count_answer(protocol, 204)
    return Response(b"", status_code=204, headers=headers, media_type="text/plain")


def _refusal(receivers: Receivers, protocol: str, error: Exception) -> Refusal:
    refusal = refusal_of(error)
    receivers.telemetry.count_answer(protocol, refusal.status, refusal.code)
    return refusal


def _text(refusal: Refusal) -> Response[bytes]:
    body = f"{refusal.message}\n".encode()
    return Response(body, status_code=refusal.status, media_type="text/plain", headers=refusal.headers)
