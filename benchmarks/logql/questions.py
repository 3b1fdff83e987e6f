"""What is asked, in LogQL and in LogsQL, and what makes two answers the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.logql.corpus import DAY_NS, START_NS

ALL = '{service_name=~".+"}'
END_NS = START_NS + DAY_NS
STEP_S = 60
LAST = 100
QUERY, QUERY_RANGE = "/loki/api/v1/query", "/loki/api/v1/query_range"
LOGSQL, LOGSQL_RANGE = "/select/logsql/query", "/select/logsql/stats_query_range"

Values = dict[str, object]
Facts = Any
"""Comparable; of a kind per question."""


@dataclass(frozen=True, slots=True)
class Question:
    target: str
    name: str
    loki: tuple[str, Values]
    """Path and parameters, for us and for Loki."""
    victoria: tuple[str, Values]
    facts: Callable[[bytes], Facts]
    victoria_facts: Callable[[bytes], Facts]
    for_loki: bool = True
    needs_rows: bool = True
    """An answer without rows would be a mistake."""


def questions(trace_id: str, token: str) -> list[Question]:
    absent = "0123456789abcdef" * 2
    return [
        _counts(),
        *(
            _needle(f"trace id {name}", f'{ALL} | trace_id="{one}"', f'trace_id:="{one}"', found)
            for name, one, found in (("unique", trace_id, True), ("absent", absent, False))
        ),
        *(
            _needle(f"word {name}", f'{ALL} |~ "[ =]{one}$"', f'"{one}"', found)
            for name, one, found in (("unique", token, True), ("absent", absent[:16], False))
        ),
        _number("substring", f'{ALL} |= "upstream 12"', '~"upstream 12"'),
        _number("frequent substring", f'{ALL} |= "status=404"', '~"status=404"'),
        _number("regex", f'{ALL} |~ "code=50. latency=9[0-9]+"', '~"code=50. latency=9[0-9]+"'),
        _last("of all", ALL, "*"),
        _last("substring", f'{ALL} |= "Timeout waiting for upstream"', '"Timeout waiting for upstream"'),
        _last("rare", f'{ALL} |~ "code=500 latency=4[0-9][0-9]"', '~"code=500 latency=4[0-9][0-9]"'),
        _last("label", f'{ALL} | detected_level="fatal"', 'level:="fatal"'),
    ]


def _counts() -> Question:
    text = f"sum by (service_name, detected_level) (count_over_time({ALL}[1m]))"
    begin, end = START_NS + STEP_S * 1_000_000_000, END_NS
    theirs = {
        "query": "* | stats by (service_name, level) count() n",
        "start": START_NS, "end": END_NS - 1, "step": f"{STEP_S}s",
    }  # fmt: skip
    return Question(
        "P13", "counts by service, level, minute",
        (QUERY_RANGE, {"query": text, "start": begin, "end": end, "step": STEP_S}), (LOGSQL_RANGE, theirs),
        lambda body: _matrix(body, "detected_level", 0), lambda body: _matrix(body, "level", STEP_S),
    )  # fmt: skip


def _needle(name: str, text: str, theirs: str, found: bool) -> Question:
    return Question("P14", name, *_lines(text, theirs), _streams, _json_rows, needs_rows=found)


def _last(name: str, text: str, theirs: str) -> Question:
    return Question("P16", f"last {LAST} {name}", *_lines(text, theirs), _streams, _json_rows)


def _lines(text: str, theirs: str) -> tuple[tuple[str, Values], tuple[str, Values]]:
    within: Values = {"start": START_NS, "end": END_NS, "limit": LAST}
    return (
        (QUERY_RANGE, {"query": text, **within, "direction": "backward"}),
        (LOGSQL, {"query": theirs, **within}),
    )


def _number(name: str, text: str, theirs: str) -> Question:
    values = {"query": f"{theirs} | stats count() n", "start": START_NS, "end": END_NS}
    return Question(
        "P15", name, (QUERY, {"query": f"sum(count_over_time({text}[24h]))", "time": END_NS}),
        (LOGSQL, values),
        lambda body: int(json.loads(body)["data"]["result"][0]["value"][1]),
        lambda body: int(json.loads(body)["n"]),
    )  # fmt: skip


def _matrix(body: bytes, level: str, shift_s: int) -> Facts:
    """Counts by service, level and end of the minute."""
    found = {}
    for series in json.loads(body)["data"]["result"]:
        labels = series["metric"]
        for at, value in series["values"]:
            if float(value):
                found[labels["service_name"], labels[level], int(at) + shift_s] = int(float(value))
    return found


def _streams(body: bytes) -> Facts:
    """(time, line), newest first."""
    rows = [
        (int(value[0]), value[1])
        for stream in json.loads(body)["data"]["result"]
        for value in stream["values"]
    ]
    return sorted(rows, reverse=True)


def _json_rows(body: bytes) -> Facts:
    rows = [json.loads(line) for line in body.splitlines() if line.strip()]
    return sorted(((_ns(row["_time"]), row["_msg"]) for row in rows), reverse=True)


def _ns(text: str) -> int:
    """RFC 3339 in UTC, to the nanosecond."""
    from datetime import UTC, datetime

    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)
