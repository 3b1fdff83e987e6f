"""`lakerunner trace ID`: draw one trace in the terminal, with its errors and its critical path.

Exit code 1 says that a part could not be read; what was printed is the rest.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from lakerunner_cli.command import CommandError
from lakerunner_cli.commands.query import add_source, screen_of
from resources.settings import Settings

NAME = "trace"
HELP = "Draw one trace: spans on their time, errors, the critical path, and log lines."
LEAST_WIDTH = 40


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="trace id, up to 32 hexadecimal digits")
    parser.add_argument("--logs", action="store_true", help="log lines below their spans")
    parser.add_argument("--json", action="store_true", help="the answer of the query API, in one line")
    parser.add_argument("--limit", type=int, default=1000, metavar="SPANS", help="at most so many spans")
    parser.add_argument("--width", type=int, default=0, metavar="CELLS", help="default: the terminal's")
    add_source(parser)


def run(args: Namespace, settings: Settings) -> int:
    from dataclasses import replace

    from lakerunner_cli.query_client import open_client
    from lakerunner_cli.waterfall import Waterfall

    if args.limit < 1 or (args.width and args.width < LEAST_WIDTH):
        raise CommandError(f"--limit is at least 1, --width at least {LEAST_WIDTH}")
    parameters: dict[str, str | int] = {"limit": args.limit}
    if not (args.logs or args.json):
        parameters["logs"] = 0
    parameters |= {name: text for name, text in (("s", args.start), ("e", args.end)) if text}
    client = open_client(args.url, args.key, settings)
    try:
        found = client.trace(args.id, parameters)
    finally:
        client.close()
    if args.json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        screen = screen_of(sys.stdout)
        screen = replace(screen, width=args.width) if args.width else screen
        Waterfall(found, screen, has_lines=args.logs).draw()
    for warning in found["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return 0 if found["status"] == "complete" else 1
