"""What a command is: a module with these four names.

A command gets parsed arguments and the settings of its data directory and returns an exit code. It raises
`CommandError` (or any error listed in `main.ACTIONABLE`) for what a person can put right.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Protocol

from resources.settings import Settings


class CommandError(Exception):
    """Something a person can act on; printed as one line, exit code 2."""


class Command(Protocol):
    NAME: str
    HELP: str

    def configure(self, parser: ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, args: Namespace, settings: Settings) -> int:
        """Do it; the result is the exit code of the process."""
