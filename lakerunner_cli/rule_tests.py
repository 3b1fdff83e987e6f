"""`lakerunner rules test FILE…`: run unit tests of rules, as `promtool test rules` does.

Exit code 1 says that a test failed. Nothing but the files is read: no stack has to run.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from lakerunner_cli.command import CommandError


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files of unit tests")
    parser.add_argument(
        "--run", action="append", default=[], metavar="REGEX", help="only tests with such names; may repeat"
    )
    parser.add_argument("--diff", action="store_true", help="show failures as a diff")


def run(args: Namespace) -> int:
    from lakerunner_query.gotext.regexp import complaint
    from lakerunner_query.rules.unit_tests import run_file

    for pattern in args.run:
        if reason := complaint(pattern):
            raise CommandError(f"--run: {reason}")
    has_failed = False
    for path in args.files:
        print(f"Unit Testing:  {path}")
        failures = [text for result in run_file(path, args.run, args.diff) for text in result.failures]
        if failures:
            has_failed = True
            print("  FAILED:")
            sys.stdout.write("".join(f"{text}\n\n" for text in failures))
        else:
            print("  SUCCESS\n")
    return 1 if has_failed else 0
