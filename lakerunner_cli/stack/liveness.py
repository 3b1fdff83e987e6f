"""Decides from repeated probes whether a component that was ready still works.

A component that stops answering is reported first and killed later. One that still uses its CPU gets ten
times as long: on a loaded machine it is slow, and killing it would make everything slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import psutil

from lakerunner_cli.stack.processes import session_members

LOOK_EVERY_S = 5.0
DOUBTS = 2
"""Failed probes in a row before a component counts as silent; a busy one may miss a single probe."""
WHILE_WORKING = 10
"""A silent component that uses its CPU has so many times the patience."""
WORKING_SHARE = 0.02
"""Least share of one core that counts as working; an idle JVM uses less."""


class Pulse(StrEnum):
    ANSWERS = "answers"
    DOUBTFUL = "doubtful"
    SILENT = "silent"
    DEAD = "dead"


@dataclass(slots=True)
class Liveness:
    """Results of the probes of one process; times are seconds of any steady clock."""

    patience_s: float
    answered_at: float
    worked_at: float
    cpu_s: float = 0.0
    looked_at: float = 0.0
    failures: int = 0

    @classmethod
    def starting(cls, patience_s: float, now: float) -> Liveness:
        return cls(patience_s, now, now, looked_at=now)

    def answered(self, now: float) -> Pulse:
        self.answered_at = self.worked_at = self.looked_at = now
        self.failures = 0
        return Pulse.ANSWERS

    def excused(self, now: float) -> Pulse:
        """Blame nobody while something that the component needs is away."""
        self.answered(now)
        return Pulse.DOUBTFUL

    def missed(self, now: float, cpu_s: float, stopped: bool) -> Pulse:
        """Judge a probe without an answer; `cpu_s` is what the component has used since it started."""
        self.failures = max(self.failures + 1, DOUBTS if stopped else 0)
        if cpu_s - self.cpu_s > WORKING_SHARE * (now - self.looked_at):
            self.worked_at = now
        self.cpu_s, self.looked_at = cpu_s, now
        idle_s, silent_s = now - self.worked_at, now - self.answered_at
        if idle_s > self.patience_s or silent_s > WHILE_WORKING * self.patience_s:
            return Pulse.DEAD
        return Pulse.SILENT if self.failures >= DOUBTS else Pulse.DOUBTFUL


def cpu_seconds(leader: int) -> float:
    """Return the CPU time of a session; what ended in the meantime counts for nothing."""
    total = 0.0
    for pid in session_members(leader):
        try:
            times = psutil.Process(pid).cpu_times()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        total += times.user + times.system
    return total


def is_stopped(leader: int) -> bool:
    """Tell if somebody stopped the process with a signal; it will not answer whatever it is asked."""
    try:
        return bool(psutil.Process(leader).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False
