"""Our parser against a real Loki: python -m benchmarks.logql.fuzz_parse URL [--count N] [--seed S]

Thousands of random queries, half of them spoiled, go to Loki's `format_query` and to the parser here: both
must take a text or both refuse it, with the same words; and what Loki prints must parse to the same tree.
The last line is `agreed N/M`; differences that are meant stand in `EXPECTED`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlencode, urlsplit

from benchmarks.logql.fuzz_queries import Queries
from lakerunner_query.errors import ParseError
from lakerunner_query.logql.lang.ast import (
    Binary,
    Expr,
    Grouping,
    LabelReplace,
    LineFilter,
    LogQuery,
    Matching,
    RangeAggregation,
    Stage,
    VectorAggregation,
)
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.printer import print_query

EXPECTED = {
    "stages": "Loki formats stages that cannot run; here they are refused at once",
    "variants": "variants() is refused by name",
    "numbers": "Loki reads a number of a label filter that is none as 0",
    "printed": "Loki prints another query: no parentheses in several lines, `without`, NaN",
}
_STAGE = "parse error : stage '"
_NOT_A_NUMBER = "parse error : unable to parse literal as a float"
_LOST = re.compile(r"NaN|[+-]Inf|-0\b|without(?! \()|\n")


@dataclass(frozen=True, slots=True)
class Answer:
    is_valid: bool
    text: str
    """The canonical query, or what is wrong with it."""


class Loki:
    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)

    def formatted(self, query: str) -> Answer:
        body = urlencode({"query": query})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/loki/api/v1/format_query", body, headers)
        reply = self._connection.getresponse()
        content = json.loads(reply.read())
        if reply.status == 200:
            return Answer(True, content["data"])
        # behind tokens of two characters Loki has forgotten the line
        return Answer(False, content["error"].replace("parse error at line 0,", "parse error at line 1,"))


def ours(query: str) -> Answer:
    try:
        return Answer(True, print_query(parse_expr(query)))
    except ParseError as error:
        return Answer(False, str(error))


def texts(seed: int, count: int) -> Iterator[str]:
    queries = Queries(seed)
    for number in range(count):
        text = queries.any_query()
        yield queries.spoiled(text) if number % 2 else text


def expected(theirs: Answer, here: Answer) -> str | None:
    """Why a difference is meant."""
    if theirs.is_valid and not here.is_valid:
        for reason, words in (("stages", _STAGE), ("variants", "variants()"), ("numbers", _NOT_A_NUMBER)):
            if words in here.text:
                return reason
    return "printed" if theirs.is_valid and here.is_valid and _LOST.search(theirs.text) else None


def difference(theirs: Answer, here: Answer) -> str | None:
    if theirs.is_valid != here.is_valid:
        return "taken by one"
    if not theirs.is_valid:
        return None if _same_line(theirs.text) == _same_line(here.text) else "other words"
    printed = ours(theirs.text)
    if not printed.is_valid:
        return f"printed what is refused: {printed.text}"
    same = print_query(as_loki_prints(parse_expr(theirs.text))) == print_query(
        as_loki_prints(parse_expr(here.text))
    )
    return None if same else f"other trees: {printed.text}"


def as_loki_prints(expr: Expr) -> Expr:
    """What Loki's printing loses or spells otherwise: empty groupings, `or` behind a negative line filter."""
    match expr:
        case LogQuery():
            return replace(expr, stages=tuple(one for stage in expr.stages for one in _apart(stage)))
        case RangeAggregation(range=ranged):
            query = as_loki_prints(ranged.query)
            return replace(expr, range=replace(ranged, query=query), grouping=_not_empty(expr.grouping))
        case VectorAggregation(expr=inner):
            return replace(expr, expr=as_loki_prints(inner), grouping=_not_empty(expr.grouping))
        case LabelReplace(expr=inner):
            return replace(expr, expr=as_loki_prints(inner))
        case Binary(left=left, right=right, matching=matching):
            kept = matching if matching.labels else Matching()
            return replace(expr, left=as_loki_prints(left), right=as_loki_prints(right), matching=kept)
    return expr


def _apart(stage: Stage) -> Iterator[Stage]:
    if not isinstance(stage, LineFilter) or not stage.op.is_negative:
        yield stage
        return
    yield from (replace(stage, values=(value,), ips=()) for value in stage.values)
    yield from (replace(stage, values=(), ips=(pattern,)) for pattern in stage.ips)


def _not_empty(grouping: Grouping | None) -> Grouping | None:
    return grouping if grouping and grouping.labels else None


def _same_line(message: str) -> str:
    """Where a text has several lines, Loki's line cannot be trusted behind such a token."""
    return re.sub(r"at line \d+", "at line", message)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url")
    options.add_argument("--count", type=int, default=4000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args(arguments)
    loki, agreed, meant = Loki(chosen.url), 0, dict.fromkeys(EXPECTED, 0)
    for text in texts(chosen.seed, chosen.count):
        theirs, here = loki.formatted(text), ours(text)
        found = difference(theirs, here)
        reason = expected(theirs, here) if found else None
        agreed += found is None or reason is not None
        if reason:
            meant[reason] += 1
        elif found:
            print(f"{text!r}: {found}\n  Loki: {theirs.text}\n  here: {here.text}")
    for reason, times in meant.items():
        print(f"{times} times: {EXPECTED[reason]}")
    print(f"agreed {agreed}/{chosen.count}")
    return 0 if agreed == chosen.count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
