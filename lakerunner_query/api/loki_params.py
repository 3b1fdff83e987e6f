"""Parameters of Loki's query API, from the query string or a form.

Names Loki knows are honoured or refused; a name it does not know is ignored, as Loki does (dashboards add
their own), but said in the answer's `warnings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.moments import duration_ns, moment_ns
from lakerunner_query.plan.build import LogRange
from resources.settings import Settings

DIRECTIONS = {"backward": True, "forward": False}
KNOWN = frozenset({"query", "start", "end", "since", "limit", "direction", "step", "interval", "time"})


@dataclass(frozen=True, slots=True)
class LokiRequest:
    query: str
    asked: LogRange
    warnings: tuple[str, ...]


def log_request(given: Mapping[str, str], org: str, settings: Settings, now_ns: int) -> LokiRequest:
    """A `query_range` request; `step` has no meaning for a log query and is only checked."""
    if "query" not in given or not given["query"].strip():
        raise InvalidRequestError("the query parameter is required")
    if duration_ns(given.get("interval", "") or "0"):
        raise InvalidRequestError("not supported yet: interval")
    duration_ns(given.get("step", "") or "0")
    start, end = _range(given, settings, now_ns)
    reverse = _direction(given.get("direction", ""))
    limit = _limit(given.get("limit", ""), settings)
    ignored = tuple(f"parameter {name!r} is unknown and was ignored" for name in sorted(set(given) - KNOWN))
    return LokiRequest(given["query"], LogRange(org, start, end, limit, reverse, distinct=True), ignored)


def _range(given: Mapping[str, str], settings: Settings, now_ns: int) -> tuple[int, int]:
    end = moment_ns(given["end"], now_ns) if given.get("end") else now_ns
    since = duration_ns(given["since"]) if given.get("since") else settings.query_default_window_s * 10**9
    start = moment_ns(given["start"], now_ns, end) if given.get("start") else end - since
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    return start, end


def _direction(text: str) -> bool:
    try:
        return DIRECTIONS[text.lower() or "backward"]
    except KeyError:
        raise InvalidRequestError(f"invalid direction '{text}'") from None


def _limit(text: str, settings: Settings) -> int:
    if not text:
        return settings.query_default_limit
    try:
        limit = int(text)
    except ValueError:
        raise InvalidRequestError(f"limit {text!r} is not an integer") from None
    if limit <= 0:
        raise InvalidRequestError("limit must be a positive value")
    return limit
