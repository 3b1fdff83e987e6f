"""The shape of a command, and the errors that a person can correct.

A command gets parsed arguments and the settings of its data directory and returns an exit code. It raises
`CommandError` (or any error listed in `main.ACTIONABLE`) for a fault that a person can correct.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
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


class StackError(CommandError):
    """The stack cannot do this; the message names the cause and the remedy."""
