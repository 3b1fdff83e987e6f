"""Commands that run one role of the system as a process of its own.

The local stack and production run the same commands. A role has no arguments: everything is a setting, so
that a role is configured the same way wherever it runs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_cli.command import Command
from resources.settings import Settings


@dataclass(slots=True)
class Role:
    """The command of one role."""

    NAME: str
    HELP: str
    serve: Callable[[Settings], int | None]

    def configure(self, parser: ArgumentParser) -> None:
        """Add nothing."""

    def run(self, args: Namespace, settings: Settings) -> int:  # noqa: ARG002 - the interface of a command
        return self.serve(settings) or 0


def _migrate(settings: Settings) -> int | None:
    from migrations.runner import run

    return run(settings)


def _ingress(settings: Settings) -> int | None:
    from lakerunner_ingress.app import serve

    return serve(settings)


def _query_api(settings: Settings) -> int | None:
    from lakerunner_query.app import serve

    return serve(settings)


def _query_worker(settings: Settings) -> int | None:
    from lakerunner_query.worker_app import serve

    return serve(settings)


def _query_jobs(settings: Settings) -> int | None:
    from lakerunner_query.handover.process import serve

    return serve(settings)


def _ruler(settings: Settings) -> int | None:
    from lakerunner_query.ruler.process import serve

    return serve(settings)


def _watchdog(settings: Settings) -> int | None:
    from sensors.watchdog import serve

    return serve(settings)


ROLES: dict[str, Command] = {
    role.NAME: role
    for role in (
        Role("migrate", "Bring the index database to this version's schema.", _migrate),
        Role("ingress", "Serve notification webhooks and the push receivers.", _ingress),
        Role("query-api", "Serve the query API.", _query_api),
        Role("query-worker", "Serve one query worker.", _query_worker),
        Role("query-jobs", "Drive large LakeQL statements on Spark.", _query_jobs),
        Role("ruler", "Evaluate alert rules and notify receivers.", _ruler),
        Role("watchdog", "Report runs dead that no longer send heartbeats.", _watchdog),
    )
}
