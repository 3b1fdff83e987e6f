"""`lakerunner query-worker`: one role of the system as a process of its own.

It lives in `lakerunner_query.worker_app`; the same command runs it in the local stack and in production.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from resources.settings import Settings

NAME = "query-worker"
HELP = "Serve one query worker."


def configure(parser: ArgumentParser) -> None:
    """Everything is a setting, so that a role is configured the same way wherever it runs."""


def run(args: Namespace, settings: Settings) -> int:  # noqa: ARG001 - the interface of a command
    from lakerunner_query.worker_app import serve

    return serve(settings) or 0
