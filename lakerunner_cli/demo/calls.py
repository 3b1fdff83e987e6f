"""`connect` makes requests of lines: a page of the frontend calls services, which call others.

    frontend POST /checkout 502      trace 4bf9…
    └ checkout  order 17 failed      the same trace, parent: the call in frontend
      └ payment  gateway timeout     the cause; spans end when their lines are written

Failing payments stand below failing checkouts, and those below failing pages. Lines of one second make
requests of that second.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from lakerunner_cli.demo.shop import SECOND_NS, Line, lines_of_second, seconds_of

MS = 1_000_000
CALLERS = {
    "cart": "frontend", "checkout": "frontend", "catalog": "frontend", "payment": "checkout",
    "inventory": "checkout", "shipping": "checkout", "email": "shipping",
}  # fmt: skip
"""Services by whom they are called, each behind its caller."""
ORDER = ("frontend", "checkout", "cart", "catalog", "payment", "inventory", "shipping", "email")
PAGES = {"checkout": "/checkout", "cart": "/cart"}
"""Pages that call a service, if the second has any."""
ROOM_NS = 200 * MS
"""Begin of a second in which no page is answered: lines of its calls are written there."""


def requests_of_second(seed: int, second: int) -> list[Line]:
    """Return the lines of the whole shop in one second, connected, in time order."""
    chance = random.Random(f"calls:{seed}:{second}")  # noqa: S311 - a shop, not a secret
    return connect(lines_of_second(seed, second), chance)


def connect(lines: Sequence[Line], chance: random.Random) -> list[Line]:
    """Give lines of one second traces and parents, and times within their callers; in time order."""
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.service].append(line)
    second = lines[0].time_ns // SECOND_NS * SECOND_NS
    for service in ORDER:
        if service not in CALLERS:
            found[service] = [_later(line, second) for line in found[service]]
            continue
        calls: dict[bytes, int] = defaultdict(int)
        for place, line in enumerate(found[service]):
            caller = chance.choice(_callers(line, found[CALLERS[service]]))
            calls[caller.span_id] += 1
            end = caller.time_ns - calls[caller.span_id] * chance.randrange(2 * MS, 6 * MS)
            found[service][place] = replace(
                line, time_ns=max(second, end), trace_id=caller.trace_id, caller=caller.span_id
            )
    for service in reversed(ORDER):
        _cover(found, service)
    return sorted((line for each in found.values() for line in each), key=lambda line: line.time_ns)


def _later(line: Line, second: int) -> Line:
    share = (line.time_ns - second) / SECOND_NS
    return replace(line, time_ns=second + ROOM_NS + int(share * (SECOND_NS - ROOM_NS)))


def _callers(line: Line, callers: Sequence[Line]) -> Sequence[Line]:
    """Return callers with the same outcome and the fitting page, as far as there are any."""
    is_error, page = line.severity == "ERROR", PAGES.get(line.service)
    same = [one for one in callers if (one.severity == "ERROR") == is_error] or callers
    fitting = [one for one in same if dict(one.attributes).get("http.route") == page]
    return fitting if page and fitting else same


def _cover(found: dict[str, list[Line]], service: str) -> None:
    """Let lines of a caller take as long as the calls that they wait for."""
    begins = {line.span_id: line.time_ns - took_ns(line) for line in found[service]}
    for name, caller in CALLERS.items():
        for line in found[name] if caller == service else ():
            begins[line.caller] = min(begins[line.caller], line.time_ns - took_ns(line) - 3 * MS)
    found[service] = [replace(line, took_ns=line.time_ns - begins[line.span_id]) for line in found[service]]


def took_ns(line: Line) -> int:
    """Return the duration of the work behind a line, with that of its calls."""
    return line.took_ns or int(seconds_of(line) * SECOND_NS)
