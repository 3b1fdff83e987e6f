"""Answers and errors have Jaeger's envelope: data, total, limit, offset, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from litestar import MediaType, Request, Response

from lakerunner_query.api.shared.requests import RequestFields, missing_warnings
from lakerunner_query.errors import SegmentsMissingError
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import Failure, respond_plain

JSON = "application/json"
PARTIAL_HEADER = "X-Lakerunner-Partial"
INDENT = 4


def reply(
    fields: RequestFields,
    data: Sequence[Any],
    missing: Mapping[str, Missing],
    *,
    total: int = 0,
    errors: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
) -> Response[bytes]:
    """Answer with data; `warnings` stand beside it if there are some."""
    body: dict[str, Any] = {
        "data": data, "total": total, "limit": 0, "offset": 0, "errors": list(errors) or None,
    }  # fmt: skip
    told = [*missing_warnings(missing), *warnings]
    return send(fields, body | ({"warnings": told} if told else {}), missing)


def send(fields: RequestFields, body: Mapping[str, Any], missing: Mapping[str, Missing]) -> Response[bytes]:
    """Answer in JSON; `partial_response=false` refuses an answer with gaps."""
    if missing and fields.text("partial_response").lower() in {"false", "0"}:
        raise SegmentsMissingError(missing_warnings(missing)[0])
    encoded = msgspec.json.encode(body)
    if fields.text("prettyPrint") not in {"", "false"}:
        encoded = msgspec.json.format(encoded, indent=INDENT)
    headers = {PARTIAL_HEADER: "true"} if missing else {}
    return Response(encoded, media_type=JSON, headers=headers)


def respond_like_jaeger(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception with an envelope that has no data."""
    plain = respond_plain(request, error)
    if not isinstance(plain.content, Failure):
        return plain
    failure = plain.content
    status = 400 if failure.status == 422 else failure.status
    return Response(
        refusal(status, failure.message), status_code=status, media_type=MediaType.JSON, headers=plain.headers
    )


def refusal(status: int, message: str) -> dict[str, Any]:
    errors = [{"code": status, "msg": message}]
    return {"data": None, "total": 0, "limit": 0, "offset": 0, "errors": errors}
