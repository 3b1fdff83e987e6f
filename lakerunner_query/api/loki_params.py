"""Parameters of Loki's query API, from the query string or a form.

Names Loki knows are honoured or refused; a name it does not know is ignored, as Loki does (dashboards add
their own), but said in the answer's `warnings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.moments import duration_ns, moment_ns
from lakerunner_query.plan.build import LogRange
from resources.settings import Settings

MAX_FIELDS = 1000
DIRECTIONS = {"backward": True, "forward": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
KNOWN = frozenset({"query", "start", "end", "since", "limit", "direction", "step", "interval", "time"})


@dataclass(frozen=True, slots=True)
class LokiRequest:
    query: str
    asked: LogRange
    warnings: tuple[str, ...]


def form_fields(body: bytes) -> list[tuple[str, str]]:
    """A form's names and values; UTF-8 where nothing is escaped too, which the framework reads as Latin-1."""
    try:
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequestError(f"a form of more than {MAX_FIELDS} fields") from error


def first_of_each(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """As Go reads a form: the first value of a name counts."""
    found: dict[str, str] = {}
    for name, value in fields:
        found.setdefault(name, value)
    return found


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
    since = given.get("since") or f"{settings.query_default_window_s}s"
    start = moment_ns(given.get("start") or f"e-{since}", now_ns, end)
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
    if not _INTEGER.fullmatch(text):
        raise InvalidRequestError(f"limit {text[:64]!r} is not an integer")
    limit = int(text)
    if limit <= 0:
        raise InvalidRequestError("limit must be a positive value")
    return limit
