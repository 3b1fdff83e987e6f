"""Texts that are TraceQL and texts that are not: python -m tests.golden.traceql_texts [--verbose]

`examples.json` holds texts by what comes of them, `queries.jsonl.gz` requests with the status of a real
Tempo. Printed text has to parse to the same tree. The last line is `passed N/M`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakerunner_query.errors import InvalidQueryError, ParseError, UnsupportedError
from lakerunner_query.traceql.lang.parser import parse, parse_metrics
from lakerunner_query.traceql.lang.printer import print_query
from tests.support.corpora import CORPORA

EXAMPLES = CORPORA / "traceql" / "examples.json"
REQUESTS = CORPORA / "traceql" / "golden" / "queries.jsonl.gz"
OWN = Path(__file__).parent / "cases" / "traceql" / "texts.json"
KINDS = ("valid", "parse_fails", "validate_fails", "unsupported")
REFUSED = "refused"
"""The kind of a text of which only the refusal is known."""
LANGUAGE_PATHS = ("/api/search", "/api/metrics/query_range", "/api/metrics/query")
"""Requests whose `q` has to parse; lists of tags read what they can of it."""


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    kind: str
    is_metrics: bool = False


def cases(path: Path) -> Iterator[Case]:
    if path.suffix == ".json":
        found = json.loads(path.read_text())
        yield from (Case(text, kind) for kind in KINDS for text in found[kind])
    else:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from filter(None, map(_of_request, map(json.loads, lines)))


def _of_request(line: dict[str, object]) -> Case | None:
    """Return the case of a request whose status its query alone decides."""
    request = line["request"]
    assert isinstance(request, dict)
    text = (request.get("params") or {}).get("q")
    is_refused_for_others = line["cat"] == "params" and line["status"] != 200
    if request["path"] not in LANGUAGE_PATHS or text is None or is_refused_for_others:
        return None
    if not text and request["path"] == "/api/search":
        return None  # an empty parameter is none
    kind = "valid" if line["status"] == 200 else REFUSED
    return Case(text, kind, is_metrics="metrics" in request["path"])


def kind_of(case: Case) -> str:
    try:
        (parse_metrics if case.is_metrics else parse)(case.text)
    except UnsupportedError:
        return "unsupported"
    except InvalidQueryError:
        return "validate_fails"
    except ParseError:
        return "parse_fails"
    return "valid"


def problem(case: Case) -> str | None:
    kind = kind_of(case)
    if kind != case.kind and (kind == "valid" or case.kind != REFUSED):
        return f"{kind}, expected {case.kind}"
    if kind == "valid":
        query = parse(case.text)
        shown = print_query(query)
        if parse(shown) != query or print_query(parse(shown)) != shown:
            return f"printed as {shown}"
    return None


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("paths", nargs="*", type=Path, default=[EXAMPLES, REQUESTS, OWN])
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
