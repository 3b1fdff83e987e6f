"""The shape of a command, and the errors that a person can correct.

A command gets parsed arguments and the settings of its data directory and returns an exit code. It raises
`CommandError` (or any error listed in `main.ACTIONABLE`) for a fault that a person can correct.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resources.settings import Settings


class CommandError(Exception):
    """A fault that a person can correct; printed as one line, exit code 2."""


class Command(Protocol):
    """A command: a module or an object with these four names."""

    NAME: str
    HELP: str

    def configure(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, args: Namespace, settings: Settings) -> int:
        """Run the command; return the exit code of the process."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A part of a command that has arguments of its own."""

    help: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Settings], int]


def add_verbs(parser: ArgumentParser, rows: Mapping[str, Verb]) -> None:
    """Add a parser for each verb; `args.verb` names the one that was chosen."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in rows.items():
        sub = verbs.add_parser(name, help=verb.help, description=verb.help)
        sub.set_defaults(verb=name)
        # the command has this option already; people type it last, where only the verb's parser sees it
        sub.add_argument("--data-dir", type=Path, default=SUPPRESS, help=SUPPRESS)
        verb.configure(sub)


class StackError(CommandError):
    """The stack cannot do this; the message names the cause and the remedy."""
