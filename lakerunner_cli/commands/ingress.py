"""`lakerunner ingress`: one role of the system as a process of its own.

The role lives in `lakerunner_ingress.app`; the same command runs it in the local stack and in production.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from resources.settings import Settings

NAME = "ingress"
HELP = "Serve notification webhooks and the push receivers."


def configure(parser: ArgumentParser) -> None:
    """Everything is a setting, so that a role is configured the same way wherever it runs."""


def run(args: Namespace, settings: Settings) -> int:  # noqa: ARG001 - the interface of a command
    from lakerunner_ingress.app import serve

    return serve(settings) or 0
