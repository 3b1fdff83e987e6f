"""Texts that must parse, and texts that must not: python -m tests.golden.promql_parse [PATH…] [--verbose]

A path is a JSON file with the lists `valid` and `invalid`, a promqltest script (what does not `expect fail`
must parse), or a compliance file `*.json.gz` (what Prometheus did not call bad data must parse). A valid text
also has to survive printing, in one line and in many. The last line is `passed N/M`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from lakerunner_query.errors import PromParseError
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import pretty, to_text
from tests.golden.promqltest_script import Eval, commands
from tests.support.corpora import CORPORA

DEFAULT = CORPORA / "parse" / "promql_parse.json"


def cases(path: Path) -> Iterator[tuple[str, bool]]:
    """Each text and whether it is PromQL."""
    if path.suffix == ".gz":
        for query in json.loads(gzip.decompress(path.read_bytes())):
            yield query["query"], query["status"] != 400
    elif path.suffix == ".json":
        found = json.loads(path.read_text())
        yield from ((text, True) for text in found["valid"])
        yield from ((text, False) for text in found["invalid"])
    else:
        for command in commands(path.read_text()):
            if isinstance(command, Eval) and "fail" not in command.words:
                yield command.text, True


def problem(text: str, is_valid: bool) -> str | None:
    try:
        printed = to_text(parse(text))
    except PromParseError as error:
        return f"refused: {error}" if is_valid else None
    if not is_valid:
        return f"taken as {printed}"
    for shown in (printed, pretty(parse(text))):
        if to_text(parse(shown)) != printed:
            return f"printed as {shown}"
    return None


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("paths", nargs="*", type=Path, default=[DEFAULT])
    options.add_argument("--verbose", action="store_true", help="show each text that fails")
    chosen = options.parse_args(arguments)
    passed = total = 0
    for path in chosen.paths:
        results = [(text, problem(text, is_valid)) for text, is_valid in cases(path)]
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
