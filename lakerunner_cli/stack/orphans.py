"""Stops the children that a killed supervisor left behind.

The caller holds the lock: no supervisor lives, so a process that the state file names has no owner.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from lakerunner_cli.stack.components import COMPONENTS, OPTIONAL
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.processes import orphan_sessions, signal_session, wait_gone
from lakerunner_cli.stack.state import read_state

GRACE_S = 5.0


def find_orphans(paths: StackPaths) -> dict[int, str]:
    """Return session leaders with the names of their components."""
    state = read_state(paths.state)
    if state is None:
        return {}
    names = {c.process.pid: c.name for c in state.components.values() if c.process is not None}
    return {pid: names[pid] for pid in orphan_sessions(state.processes(), paths.root)}


def stop_orphans(paths: StackPaths, announce: Callable[[str], None]) -> int:
    """Stop all at once, politely first; return the number of sessions."""
    orphans = find_orphans(paths)
    if not orphans:
        return 0
    announce(f"stopping what a killed supervisor left behind: {', '.join(orphans.values())}")
    by_name = {component.name: component for component in (*COMPONENTS, *OPTIONAL)}
    for pid, name in orphans.items():
        known = by_name.get(name)
        number = known.stop_signal if known else signal.SIGTERM
        signal_session(pid, number, leader_only=bool(known and known.stops_its_own_children))
    for pid in wait_gone(list(orphans), GRACE_S):
        signal_session(pid, signal.SIGKILL)
        wait_gone([pid], GRACE_S)
    return len(orphans)
