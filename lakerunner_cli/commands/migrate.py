"""`lakerunner migrate`: one role of the system as a process of its own.

The role lives in `migrations.runner`; the same command runs it in the local stack and in production.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from resources.settings import Settings

NAME = "migrate"
HELP = "Bring the index database to this version's schema."


def configure(parser: ArgumentParser) -> None:
    """Everything is a setting, so that a role is configured the same way wherever it runs."""


def run(args: Namespace, settings: Settings) -> int:  # noqa: ARG001 - the interface of a command
    from migrations.runner import run

    return run(settings) or 0
