"""Waiting until objects are queryable or given up on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from lakerunner_cli.command import CommandError
from resources.index.postgres.objects import ObjectStatus

POLL_S = 0.5


def wait_until_settled(
    look: Callable[[], Sequence[ObjectStatus]], expected: int, timeout_s: float, tell: Callable[[int], None]
) -> list[ObjectStatus]:
    """The final state of all objects; `tell` hears how many are settled so far."""
    deadline = time.monotonic() + timeout_s
    while True:
        settled = [status for status in look() if status.settled]
        tell(len(settled))
        if len(settled) >= expected:
            return settled
        if time.monotonic() >= deadline:
            raise CommandError(
                f"after {timeout_s:.0f} s {expected - len(settled)} of {expected} objects are not queryable "
                "yet; they stay in the pipeline (`lakerunner status`)"
            )
        time.sleep(POLL_S)
