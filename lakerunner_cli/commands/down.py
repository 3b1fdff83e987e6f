"""`lakerunner down`: stop the stack of a data directory, also one whose supervisor was killed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from resources.settings import Settings

NAME = "down"
HELP = "Stop the local stack; its data stays."


def configure(parser: ArgumentParser) -> None:
    """Add nothing."""


def run(args: Namespace, settings: Settings) -> int:  # noqa: ARG001 - the interface of a command
    from lakerunner_cli.stack.lifecycle import shut_down
    from lakerunner_cli.stack.paths import StackPaths

    did = shut_down(StackPaths(settings.data_dir), lambda line: print(line, flush=True))
    print("stopped" if did else f"no stack is running on {settings.data_dir}")
    return 0
