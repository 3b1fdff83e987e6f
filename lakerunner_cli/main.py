"""Parses the arguments, runs one command, and returns its exit code.

`--data-dir`, before or after the command, selects the stack (and its settings) that the command talks to.
What a command writes is private to its user; roles alone keep the umask they were started with. Errors that
a person can act on become one line on stderr and exit code 2, everything else keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from lakerunner_cli.command import Command, CommandError
from lakerunner_cli.commands import COMMANDS
from lakerunner_cli.commands.roles import ROLES
from lakerunner_cli.stack.paths import PRIVATE_UMASK
from resources.settings import Settings, SettingsError, process_environment

ACTIONABLE = (SettingsError, CommandError)


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    command = cast("Command", args.command)
    if command.NAME not in ROLES:
        os.umask(PRIVATE_UMASK)
    try:
        return command.run(args, load_settings(args))
    except ACTIONABLE as error:
        print(f"lakerunner {command.NAME}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `lakerunner logs | head`: the reader has enough
        sys.stderr.close()
        return 0


def load_settings(args: Namespace) -> Settings:
    """Load the settings; `--data-dir` wins over the environment, as an argument always does."""
    environment = process_environment()
    if args.data_dir is not None:
        environment["LAKERUNNER_DATA_DIR"] = str(args.data_dir)
    return Settings.load(environment)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="lakerunner", description="A telemetry lakehouse on plain Parquet.")
    parser.add_argument("--version", action="version", version=f"lakerunner {version('lakerunner')}")
    data_dir: dict[str, Any] = {"type": Path, "help": "directory of the local stack (default ./.lakerunner)"}
    parser.add_argument("--data-dir", **data_dir)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _commands():
        sub = subparsers.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        # without a default, or it would replace what stands before the command
        sub.add_argument("--data-dir", default=SUPPRESS, **data_dir)
        sub.set_defaults(command=command)
        command.configure(sub)
    return parser


def _commands() -> list[Command]:
    return [
        ROLES[name] if name in ROLES else cast("Command", import_module(f"lakerunner_cli.commands.{name}"))
        for name in COMMANDS
    ]


if __name__ == "__main__":
    sys.exit(main())
