"""A component of the stack: a frozen value made of small functions over the site.

The supervisor calls them in this order at every start: `prepare` (may take long the first time), `command`
and `environment`, `probe` with the time of the start until it succeeds, `finish` before dependents start.
From then on it asks `probe` every few seconds for a sign of life that is not older than `silent_timeout_s`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakerunner_cli.stack.site import Site

Announce = Callable[[str], None]


def nothing_to_prepare(site: Site, announce: Announce) -> None:
    """Prepare nothing: most components need no files of their own."""


def nothing_to_finish(site: Site) -> None:
    """Finish nothing: most components are ready when their probe succeeds."""


def no_extra_environment(site: Site) -> Mapping[str, str]:  # noqa: ARG001 - one signature for all
    return {}


def always_wanted(site: Site) -> bool:  # noqa: ARG001 - one signature for all
    """Run for as long as the supervisor does."""
    return True


def own_user(site: Site) -> str | None:  # noqa: ARG001 - one signature for all
    """Run as the user of the supervisor."""
    return None


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    needs: tuple[str, ...]
    command: Callable[[Site], Sequence[str]]
    probe: Callable[[Site, float], bool]
    address: Callable[[Site], str]
    prepare: Callable[[Site, Announce], None] = nothing_to_prepare
    environment: Callable[[Site], Mapping[str, str]] = no_extra_environment
    finish: Callable[[Site], None] = nothing_to_finish
    user: Callable[[Site], str | None] = own_user
    wanted: Callable[[Site], bool] = always_wanted
    stop_signal: signal.Signals = signal.SIGTERM
    stops_its_own_children: bool = False
    ready_timeout_s: float = 180.0  # a busy laptop needs a minute; killing a slow starter makes it slower
    silent_timeout_s: float = 30.0
    """Time without an answer and without work after which it is killed and started again."""


def stop_order(components: Sequence[Component]) -> list[list[Component]]:
    """Group components for stopping: dependents first, the members of one group together."""
    groups: list[list[Component]] = []
    remaining = list(components)
    while remaining:
        needed = {name for component in remaining for name in component.needs}
        leaves = [c for c in remaining if c.name not in needed]
        groups.append(leaves)
        remaining = [c for c in remaining if c.name in needed]
    return groups
