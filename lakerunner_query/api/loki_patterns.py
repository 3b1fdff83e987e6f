"""Of which shapes lines are, and how many of each when, as Loki's API tells it.

Every line counts; the text of a pattern is made from one line of it. The most frequent patterns are told, of
which the least are left out where there are more than `limit`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from litestar import Request, Response, route

from lakerunner_query.api.auth import caller
from lakerunner_query.api.disconnect import unless_gone
from lakerunner_query.api.forms import given
from lakerunner_query.api.loki_params import limit, query_text, selector, step_ns, time_range
from lakerunner_query.api.loki_replies import JSON, METHODS, reply
from lakerunner_query.api.services import Services
from lakerunner_query.coordinator.names import Found, StreamQuestion
from lakerunner_query.errors import InvalidRequestError, LimitExceededError
from resources.lake.timecut import SECOND_NS

MOST = 300
MOST_SAMPLES = 1_000_000
"""Of an answer: patterns times steps."""


@route("/patterns", http_method=METHODS, status_code=200, media_type=JSON)
async def patterns(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Patterns of lines, the most frequent first."""
    asked = await given(request)
    start, end = time_range(asked, time.time_ns(), services.settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    step = max(SECOND_NS, step_ns(asked, start, end) // SECOND_NS * SECOND_NS)
    wanted = StreamQuestion(caller(request.state).org, start, end, (selector(query_text(asked)),))
    most = limit(asked, MOST)
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.streams.patterns(wanted, step, most))
        watch.ended(partial=bool(found.missing))
    data = await asyncio.to_thread(patterns_json, found, wanted, step, most)
    return reply(asked, data, found.missing)


def patterns_json(found: Found, wanted: StreamQuestion, step: int, most: int) -> bytes:
    """A number at every step, also where there is none."""
    buckets = range(wanted.start_ns // step, -(-wanted.end_ns // step))
    ordered = sorted(found.patterns.items(), key=lambda one: (-one[1].total(), one[0]))[:most]
    if len(ordered) * len(buckets) > MOST_SAMPLES:
        raise LimitExceededError(
            f"the answer has more than {MOST_SAMPLES} samples: use a larger step, or a smaller limit"
        )
    return msgspec.json.encode(
        [
            {
                "pattern": text,
                "level": level,
                "samples": [[bucket * step // SECOND_NS, counts[bucket]] for bucket in buckets],
            }
            for (text, level), counts in ordered
        ]
    )
