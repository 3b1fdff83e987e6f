"""`/status/tsdb`: what the series of the last two hours are made of, counted from their label sets.

Prometheus answers it for its head block, which holds about as much. No sample is read for it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from litestar import Request, Response, get

from lakerunner_query.api.prometheus.params import optional_time
from lakerunner_query.api.prometheus.render import JSON, Messages, reply
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import missing_warnings, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import SERIES
from lakerunner_query.coordinator.names import SeriesRequest
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.serving import unless_gone
from lakerunner_query.vectors.vector import NAME, Labels

HEAD_MS = 2 * 3_600_000
DEFAULT_LIMIT, MAX_LIMIT = 10, 10_000
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


@get("/status/tsdb", media_type=JSON)
async def tsdb(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Count series by name, label and pair; `start` and `end` are parameters of Lakerunner alone."""
    fields = await read_fields(request)
    most = _limit(fields.text("limit"))
    end = optional_time(fields, "end", time.time_ns() // 1_000_000)
    start = optional_time(fields, "start", end - HEAD_MS)
    wanted = SeriesRequest(caller(request.state).org, start - 1, end)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.engine.ask(SERIES, wanted))
        watch.end(partial=bool(found.missing))
    data = await asyncio.to_thread(lambda: msgspec.json.encode(statistics(found.series, most, start, end)))
    return reply(fields, data, Messages(missing_warnings(found.missing)), found.missing)


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    if not _NUMBER.fullmatch(text) or int(text) < 1:
        raise InvalidRequestError("limit must be a positive number")
    if int(text) > MAX_LIMIT:
        raise InvalidRequestError(f"limit must not exceed {MAX_LIMIT}")
    return int(text)


def statistics(series: Iterable[Labels], most: int, start_ms: int, end_ms: int) -> dict[str, object]:
    """Count label sets as Prometheus' head block does.

    >>> found = statistics([(("__name__", "up"), ("job", "a")), (("__name__", "up"), ("job", "b"))], 1, 0, 9)
    >>> found["seriesCountByMetricName"], found["labelValueCountByLabelName"]
    ([{'name': 'up', 'value': 2}], [{'name': 'job', 'value': 2}])
    """
    pairs: Counter[tuple[str, str]] = Counter()
    total = 0
    for labels in series:
        total += 1
        pairs.update(labels)
    values: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for (name, value), count in pairs.items():
        values[name] += 1
        sizes[name] += count * (len(f"{name}{value}".encode("utf-8", "surrogateescape")) + 2)
    is_empty = not total
    return {
        "headStats": {
            "numSeries": total,
            "numLabelPairs": len(pairs),
            "chunkCount": 0,
            "minTime": 2**63 - 1 if is_empty else start_ms,
            "maxTime": -(2**63) if is_empty else end_ms,
        },
        "seriesCountByMetricName": _top({v: count for (n, v), count in pairs.items() if n == NAME}, most),
        "labelValueCountByLabelName": _top(values, most),
        "memoryInBytesByLabelName": _top(sizes, most),
        "seriesCountByLabelValuePair": _top({f"{n}={v}": count for (n, v), count in pairs.items()}, most),
    }


def _top(counts: Mapping[str, int], most: int) -> list[dict[str, object]]:
    """Return the largest, the first by name among equals."""
    largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:most]
    return [{"name": name, "value": count} for name, count in largest]
