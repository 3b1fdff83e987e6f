"""Parameters are read and refused as Loki does it.

Names Loki knows are honoured or refused; a name it does not know is ignored, as Loki does (dashboards add
their own), but named in the answer's `warnings`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from lakerunner_query.api.shared.requests import REWRITE, RequestFields
from lakerunner_query.api.shared.times import MAX_NS, duration_ns, moment_ns
from lakerunner_query.errors import InvalidRequestError, ParseError
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_cached
from lakerunner_query.syntax import Matcher
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings

DIRECTIONS = {"backward": True, "forward": False}
RECENT_S = 6 * 3600
"""Range of questions about labels and streams that name no start."""
MAX_STEPS = 11_000
STEPS_BY_DEFAULT = 250
KNOWN = frozenset(
    {"query", "start", "end", "since", "limit", "direction", "step", "interval", "time", REWRITE}
)
NEAR = 0.75
"""Likeness from which on an unknown name is taken for a misspelling."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_EVERYTHING = re.compile(r"\{\s*\}")


@dataclass(frozen=True, slots=True)
class QueryParams:
    """Parameters of a query beside its text; a step of 0 is an instant query at `end_ns`."""

    start_ns: int
    end_ns: int
    step_ns: int
    interval_ns: int
    """Distance of lines; those nearer to the one before are left out."""
    limit: int
    reverse: bool
    warnings: tuple[str, ...]


def range_params(fields: RequestFields, settings: Settings, now_ns: int) -> QueryParams:
    """Read the parameters of `query_range`."""
    start, end = time_range(fields, now_ns, settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    step = step_ns(fields, start, end)
    interval = _duration(fields, "interval") if fields.text("interval") else 0
    if interval < 0:
        raise InvalidRequestError("interval must be >= 0")
    most = limit(fields, settings.query_default_limit)
    return QueryParams(start, end, step, interval, most, _direction(fields), _ignored(fields))


def instant_params(fields: RequestFields, settings: Settings, now_ns: int) -> QueryParams:
    """Read the parameters of `query`."""
    at = moment_ns(fields.text("time"), now_ns) if fields.text("time") else now_ns
    most = limit(fields, settings.query_default_limit)
    return QueryParams(at, at, 0, 0, most, _direction(fields), _ignored(fields))


def time_range(fields: RequestFields, now_ns: int, default_s: int) -> tuple[int, int]:
    """Read start and end; `since` reaches back from the end, or from now if that is earlier."""
    end = moment_ns(fields.text("end"), now_ns) if fields.text("end") else now_ns
    if fields.text("start"):
        return moment_ns(fields.text("start"), now_ns, end), end
    since = _duration(fields, "since") if fields.text("since") else default_s * SECOND_NS
    start = min(end, now_ns) - since
    if start < -MAX_NS:
        raise InvalidRequestError(f"since {LOGQL.quote(fields.text('since'))} reaches back before all time")
    return start, end


def step_ns(fields: RequestFields, start_ns: int, end_ns: int) -> int:
    """Read the step, by default of a second at least and for about 250 steps; refuse too many steps."""
    if not fields.text("step"):
        return max(1, (end_ns - start_ns) // (STEPS_BY_DEFAULT * SECOND_NS)) * SECOND_NS
    found = _duration(fields, "step")
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


def limit(fields: RequestFields, default: int) -> int:
    text = fields.text("limit")
    if not text:
        return default
    if not _INTEGER.fullmatch(text):
        raise InvalidRequestError(f"strconv.Atoi: parsing {LOGQL.quote(text[:64])}: invalid syntax")
    if int(text) <= 0:
        raise InvalidRequestError("limit must be a positive value")
    return int(text)


def query_text(fields: RequestFields) -> str:
    text = fields.text("query")
    if not text.strip():
        raise ParseError("syntax error: unexpected $end")
    return text


def selector(text: str) -> tuple[Matcher, ...]:
    """Parse matchers with nothing behind them; `{}` is every stream."""
    if _EVERYTHING.fullmatch(text.strip()):
        return ()
    query = parse_cached(text)
    if not isinstance(query, LogQuery) or query.stages:
        raise InvalidRequestError("only label matchers are supported")
    return query.matchers


def log_query_text(fields: RequestFields) -> str:
    """Read the text of a query that must give lines."""
    text = query_text(fields)
    if not isinstance(parse_cached(text), LogQuery):
        raise InvalidRequestError("only log selector is supported")
    return text


def _duration(fields: RequestFields, name: str) -> int:
    """Read a Go-like duration or a number of seconds, either of which may be negative."""
    text = fields.text(name)
    sign, size = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return sign * duration_ns(size)
    except InvalidRequestError:
        raise InvalidRequestError(f"cannot parse {LOGQL.quote(text[:64])} to a valid duration") from None


def _direction(fields: RequestFields) -> bool:
    text = fields.text("direction")
    try:
        return DIRECTIONS[text.lower() or "backward"]
    except KeyError:
        raise InvalidRequestError(f"invalid direction '{text}'") from None


def _ignored(fields: RequestFields) -> tuple[str, ...]:
    return tuple(
        f"parameter {name!r} is unknown and was ignored{_nearest(name)}"
        for name in sorted(set(fields.first) - KNOWN)
    )


def _nearest(name: str) -> str:
    found = difflib.get_close_matches(name[:64].lower(), sorted(KNOWN), 1, NEAR)
    return f"; did you mean {found[0]!r}?" if found else ""
