"""From data to response: the header of partial answers, and refusing them where that was asked for."""

from __future__ import annotations

from collections.abc import Mapping

from litestar import HttpMethod, Response

from lakerunner_query.api import prometheus_json as answers
from lakerunner_query.api.forms import Given
from lakerunner_query.errors import SegmentsMissingError
from lakerunner_query.protocol.units import Missing

JSON = "application/json"
METHODS = [HttpMethod.GET, HttpMethod.POST]
PARTIAL_HEADER = "X-Lakerunner-Partial"


def reply(
    asked: Given, data: bytes, said: answers.Said, missing: Mapping[str, Missing] | None = None
) -> Response[bytes]:
    """`partial_response=false` rather has no answer than one with gaps."""
    if missing and asked.text("partial_response").lower() in {"false", "0"}:
        raise SegmentsMissingError(answers.partial(missing)[0])
    headers = {PARTIAL_HEADER: "true"} if missing else {}
    return Response(answers.success(data, said), media_type=JSON, headers=headers)
