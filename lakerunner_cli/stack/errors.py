"""The one error of the stack: something a person can put right."""

from __future__ import annotations

from lakerunner_cli.command import CommandError


class StackError(CommandError):
    """The stack cannot do this; the message says what was found and what to do."""
