"""From data to response as Loki gives it; answers with gaps say so, or are refused where that was wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from litestar import HttpMethod, Response

from lakerunner_query.api.forms import Given
from lakerunner_query.api.prometheus_json import partial
from lakerunner_query.errors import SegmentsMissingError
from lakerunner_query.protocol.units import Missing

JSON = "application/json; charset=UTF-8"
METHODS = [HttpMethod.GET, HttpMethod.POST]
PARTIAL_HEADER = "X-Lakerunner-Partial"
NOT_WANTED = frozenset({"false", "0"})


def reply(
    asked: Given, data: bytes, missing: Mapping[str, Missing], warnings: Sequence[str] = ()
) -> Response[bytes]:
    """`data` in Loki's envelope."""
    said = [*warnings, *partial(missing)]
    told = b'"warnings":' + msgspec.json.encode(said) + b"," if said else b""
    return bare(asked, b'{"status":"success",' + told + b'"data":' + data + b"}", missing)


def bare(asked: Given, body: bytes, missing: Mapping[str, Missing]) -> Response[bytes]:
    """The body as it is; `partial_response=false` rather has no answer than one with gaps."""
    if missing and asked.text("partial_response").lower() in NOT_WANTED:
        raise SegmentsMissingError(partial(missing)[0])
    headers = {PARTIAL_HEADER: "true"} if missing else {}
    return Response(body, media_type=JSON, headers=headers)
