"""Run rule unit tests against promtool's verdicts: python -m tests.golden.rules_test CORPUS [FILE…] [-v]

A file is right if the same groups pass and fail as in promtool 3.15; the last line is `right N/M`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakerunner_query.rules.unit_tests import run_file


@dataclass(frozen=True, slots=True)
class Verdict:
    file: str
    failed: frozenset[str]
    """Groups that fail."""
    groups: int


@dataclass(frozen=True, slots=True)
class Result:
    verdict: Verdict
    failures: dict[str, tuple[str, ...]]
    groups: int

    @property
    def is_right(self) -> bool:
        return self.groups == self.verdict.groups and set(self.failures) == self.verdict.failed


def verdicts(corpus: Path) -> list[Verdict]:
    rows = json.loads((corpus / "verdicts.json").read_text())["tests"]
    return [
        Verdict(
            row["file"], frozenset(one["group"] for one in row.get("failures", ())), int(row["test_groups"])
        )
        for row in rows
    ]


def run(corpus: Path, chosen: Sequence[Verdict]) -> Iterator[Result]:
    for verdict in chosen:
        found = list(run_file(corpus / verdict.file))
        failures = {one.name: one.failures for one in found if one.failures}
        yield Result(verdict, failures, len(found))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.rules_test", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("files", nargs="*", help="parts of names of files")
    parser.add_argument("--verbose", "-v", action="store_true", help="print all failures")
    options = parser.parse_args()
    chosen = [
        one
        for one in verdicts(options.corpus)
        if not options.files or any(part in one.file for part in options.files)
    ]
    right, began = 0, time.monotonic()
    for result in run(options.corpus, chosen):
        right += result.is_right
        seconds, began = time.monotonic() - began, time.monotonic()
        print(f"{'right' if result.is_right else 'WRONG'} {result.verdict.file} {seconds:.1f} s", flush=True)
        if not result.is_right or options.verbose:
            print(
                f"  to fail: {sorted(result.verdict.failed)}, groups {result.groups}/{result.verdict.groups}"
            )
            for name, failures in result.failures.items():
                print(f"  {name}:", *failures, sep="\n")
    print(f"right {right}/{len(chosen)}")
    return 0 if right == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
