"""Parameters of Loki's query API, read and refused as Loki does.

Names Loki knows are honoured or refused; a name it does not know is ignored, as Loki does (dashboards add
their own), but said in the answer's `warnings`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakerunner_query.api.shared.requests import RequestFields
from lakerunner_query.api.shared.times import MAX_NS, duration_ns, moment_ns
from lakerunner_query.errors import InvalidRequestError, ParseError
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parsed
from lakerunner_query.syntax import Matcher
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings

DIRECTIONS = {"backward": True, "forward": False}
RECENT_S = 6 * 3600
"""Labels and streams, where no start is given, are those of so long."""
MAX_STEPS = 11_000
STEPS_BY_DEFAULT = 250
KNOWN = frozenset({"query", "start", "end", "since", "limit", "direction", "step", "interval", "time"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_EVERYTHING = re.compile(r"\{\s*\}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query request says beside the query text; a step of 0 is an instant query at `end_ns`."""

    start_ns: int
    end_ns: int
    step_ns: int
    interval_ns: int
    """Lines nearer than this to the one before are left out."""
    limit: int
    reverse: bool
    warnings: tuple[str, ...]


def ranged(asked: RequestFields, settings: Settings, now_ns: int) -> Asked:
    """Of `query_range`."""
    start, end = time_range(asked, now_ns, settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    step = step_ns(asked, start, end)
    interval = _duration(asked, "interval") if asked.text("interval") else 0
    if interval < 0:
        raise InvalidRequestError("interval must be >= 0")
    most = limit(asked, settings.query_default_limit)
    return Asked(start, end, step, interval, most, _direction(asked), _ignored(asked))


def instant(asked: RequestFields, settings: Settings, now_ns: int) -> Asked:
    """Of `query`."""
    at = moment_ns(asked.text("time"), now_ns) if asked.text("time") else now_ns
    most = limit(asked, settings.query_default_limit)
    return Asked(at, at, 0, 0, most, _direction(asked), _ignored(asked))


def time_range(asked: RequestFields, now_ns: int, default_s: int) -> tuple[int, int]:
    """`since` reaches back from the end, from now if that is earlier."""
    end = moment_ns(asked.text("end"), now_ns) if asked.text("end") else now_ns
    if asked.text("start"):
        return moment_ns(asked.text("start"), now_ns, end), end
    since = _duration(asked, "since") if asked.text("since") else default_s * SECOND_NS
    start = min(end, now_ns) - since
    if start < -MAX_NS:
        raise InvalidRequestError(f"since {LOGQL.quote(asked.text('since'))} reaches back before all time")
    return start, end


def step_ns(asked: RequestFields, start_ns: int, end_ns: int) -> int:
    """Without one about 250 steps, of a second at least; refused where there would be too many."""
    if not asked.text("step"):
        return max(1, (end_ns - start_ns) // (STEPS_BY_DEFAULT * SECOND_NS)) * SECOND_NS
    found = _duration(asked, "step")
    if found <= 0:
        raise InvalidRequestError(
            "zero or negative query resolution step widths are not accepted. Try a positive integer"
        )
    if (end_ns - start_ns) // found > MAX_STEPS:
        raise InvalidRequestError(
            "exceeded maximum resolution of 11,000 points per time series. "
            "Try increasing the value of the step parameter"
        )
    return found


def limit(asked: RequestFields, default: int) -> int:
    text = asked.text("limit")
    if not text:
        return default
    if not _INTEGER.fullmatch(text):
        raise InvalidRequestError(f"strconv.Atoi: parsing {LOGQL.quote(text[:64])}: invalid syntax")
    if int(text) <= 0:
        raise InvalidRequestError("limit must be a positive value")
    return int(text)


def query_text(asked: RequestFields) -> str:
    text = asked.text("query")
    if not text.strip():
        raise ParseError("syntax error: unexpected $end")
    return text


def selector(text: str) -> tuple[Matcher, ...]:
    """Matchers and nothing behind them; `{}` is every stream."""
    if _EVERYTHING.fullmatch(text.strip()):
        return ()
    query = parsed(text)
    if not isinstance(query, LogQuery) or query.stages:
        raise InvalidRequestError("only label matchers are supported")
    return query.matchers


def log_query_text(asked: RequestFields) -> str:
    """Of what only works on lines."""
    text = query_text(asked)
    if not isinstance(parsed(text), LogQuery):
        raise InvalidRequestError("only log selector is supported")
    return text


def _duration(asked: RequestFields, name: str) -> int:
    """A Go-like duration or a number of seconds, either of which may be negative."""
    text = asked.text(name)
    sign, size = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return sign * duration_ns(size)
    except InvalidRequestError:
        raise InvalidRequestError(f"cannot parse {LOGQL.quote(text[:64])} to a valid duration") from None


def _direction(asked: RequestFields) -> bool:
    text = asked.text("direction")
    try:
        return DIRECTIONS[text.lower() or "backward"]
    except KeyError:
        raise InvalidRequestError(f"invalid direction '{text}'") from None


def _ignored(asked: RequestFields) -> tuple[str, ...]:
    return tuple(
        f"parameter {name!r} is unknown and was ignored" for name in sorted(set(asked.first) - KNOWN)
    )
