"""Renders the state of a stack for a person and for a program."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import psutil

from lakerunner_cli.stack.state import ComponentState, Phase, StackState

HEADER = f"{'component':<15} {'state':<11} {'pid':>7} {'restarts':>8} {'uptime':>8} {'memory':>8}  address"


def table(state: StackState) -> list[str]:
    """Return one line per component, then remarks (moved ports, mock broker)."""
    rows = [_row(component) for component in state.components.values()]
    return [HEADER, *rows, *(f"! {notice}" for notice in state.notices)]


def as_json(state: StackState, running: bool) -> dict[str, Any]:
    components = [
        {**asdict(c), "memory_mb": memory_mb(c), "uptime_s": _uptime(c)} for c in state.components.values()
    ]
    return {
        "running": running,
        "ready": running and state.ready,
        "supervisor": asdict(state.supervisor),
        "notices": list(state.notices),
        "components": components,
    }


def memory_mb(component: ComponentState) -> int:
    """Return the resident memory of a component and its descendants."""
    if component.process is None or not component.process.alive():
        return 0
    try:
        leader = psutil.Process(component.process.pid)
        everyone = [leader, *leader.children(recursive=True)]
        return int(sum(process.memory_info().rss for process in everyone) // 1_000_000)
    except psutil.NoSuchProcess:
        return 0


def _row(component: ComponentState) -> str:
    pid = component.process.pid if component.process else "-"
    uptime = duration(_uptime(component))
    text = component.address if component.phase is Phase.READY else component.message or component.address
    numbers = f"{pid!s:>7} {component.restarts:>8} {uptime:>8} {memory_mb(component):>5} MB"
    return f"{component.name:<15} {component.phase.value:<11} {numbers}  {text}"


def _uptime(component: ComponentState) -> float:
    return max(0.0, time.time() - component.process.created) if component.process else 0.0


def duration(seconds: float) -> str:
    """Write a duration in its two largest units.

    >>> duration(7.4), duration(75), duration(7500), duration(200000)
    ('7s', '1m15s', '2h05m', '2d07h')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"
