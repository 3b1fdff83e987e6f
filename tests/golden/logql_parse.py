"""Texts that are LogQL and texts that are not: python -m tests.golden.logql_parse [PATH…] [--verbose]

A path is a JSON file with the lists `accept` (texts) and `reject` (`query` and the `error` the message has to
hold), or a logqltest script: what does not `expect fail` must parse, and printed text must parse to the same
tree. A query of a script that fails only when it runs may parse. The last line is `passed N/M`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakerunner_query.errors import ParseError
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.pretty import pretty
from lakerunner_query.logql.lang.printer import print_query
from tests.support.corpora import CORPORA

DEFAULT = CORPORA / "parse" / "logql_parse.json"
_EVAL = re.compile(r"eval (?:instant at \S+|range from \S+ to \S+ step \S+) (.+)")
_FAIL = re.compile(r"\s*expect fail\b(?:\s+(msg|regex):\s*(.*?))?\s*$")


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    is_valid: bool
    message: str = ""
    """A pattern, for texts that are refused."""
    may_run: bool = False
    """The failure may come later than from the parser."""


def cases(path: Path) -> Iterator[Case]:
    if path.suffix == ".json":
        found = json.loads(path.read_text())
        yield from (Case(text, True) for text in found["accept"])
        yield from (Case(one["query"], False, re.escape(one["error"])) for one in found["reject"])
    else:
        yield from _of_script(path.read_text().split("\n"))


def _of_script(lines: list[str]) -> Iterator[Case]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        evaluated = _EVAL.match(line)
        if evaluated is None:
            continue
        fails = _FAIL.match(following)
        if fails is None:
            yield Case(evaluated[1], True)
        else:
            message = fails[2] or ""
            yield Case(
                evaluated[1], False, re.escape(message) if fails[1] == "msg" else message, may_run=True
            )


def problem(case: Case) -> str | None:
    try:
        expr = parse_expr(case.text)
    except ParseError as error:
        if case.is_valid:
            return f"refused: {error}"
        return None if re.search(case.message, str(error)) else f"refused with another message: {error}"
    if not case.is_valid and not case.may_run:
        return f"taken as {print_query(expr)}"
    for shown in (print_query(expr), pretty(expr)):
        if parse_expr(shown) != expr:
            return f"printed as {shown}"
    return None


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("paths", nargs="*", type=Path, default=[DEFAULT])
    options.add_argument("--verbose", action="store_true", help="show each text that fails")
    chosen = options.parse_args(arguments)
    passed = total = 0
    for path in chosen.paths:
        results = [(case.text, problem(case)) for case in cases(path)]
        good = sum(found is None for _, found in results)
        passed, total = passed + good, total + len(results)
        print(f"{path.name}: {good}/{len(results)}")
        for text, found in results:
            if found is not None and chosen.verbose:
                print(f"  {text!r}: {found}")
    print(f"passed {passed}/{total}")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
