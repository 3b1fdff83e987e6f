"""`lakerunner logs`: print the last lines of one component or of all, and follow on request."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from lakerunner_cli.command import CommandError
from resources.settings import Settings

NAME = "logs"
HELP = "Show the logs of the local stack."


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("component", nargs="?", help="one of those in `lakerunner status`, or `supervisor`")
    parser.add_argument("-f", "--follow", action="store_true", help="go on printing new lines")
    parser.add_argument("-n", "--lines", type=int, default=40, help="lines from the end (default 40)")


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.stack import logs
    from lakerunner_cli.stack.paths import StackPaths

    paths = StackPaths(settings.data_dir)
    known = logs.names(paths)
    if args.component is not None and args.component not in known:
        raise CommandError(
            f"no log of {args.component!r} in {paths.logs}; there are: {', '.join(known) or 'none'}"
        )
    chosen = [args.component] if args.component else known
    for name in chosen:
        for line in logs.last_lines(paths.log(name), args.lines):
            print(_label(name, line, len(chosen)))
    if args.follow:
        for name, line in logs.follow(paths, chosen):
            print(_label(name, line, len(chosen)), flush=True)
    return 0


def _label(name: str, line: str, of: int) -> str:
    return line if of == 1 else f"{name:<15} | {line}"
