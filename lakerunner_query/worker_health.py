"""The front of a worker judges its reader process and the units in it.

Every judgement is a pure decision over what the system tells in one look: a process may have to be killed, a
unit may not get on. None depends on how much else the machine does: a thread that waits for a processor is as
good as one that runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

STUCK_S = 1.5
"""Seconds without a sign of life and without CPU time after which a reader is stuck."""
STUCK_LOOKS = 3
ADVANCING_SHARE = 0.05
"""Part of the time in which the thread of a unit that gets on used a processor or waited for one."""
HOLDING_SHARE = 0.5
"""Part of the CPU time of the busiest unit that its neighbours use if it does not keep the lock from them."""
USER_TIME, SYSTEM_TIME, READY, TICKS_PER_S = 11, 12, "R", os.sysconf("SC_CLK_TCK")
"""Fields behind the name in `/proc/PID/task/ID/stat`, and the state of threads that could run."""


@dataclass(slots=True)
class RunningUnit:
    """A unit at work."""

    number: int
    slot: int
    began: float
    cpu_s: float = 0.0
    """CPU seconds as the supervisor sees them."""
    rate: float | None = None
    """CPU seconds per second, lately; None: nobody looked yet."""
    activity: float = 1.0
    """Part of the time, lately, in which its thread used a processor or waited for one."""
    over_budget_at: float = 0.0
    """Time at which it was cancelled for what it or a copy of it used; 0: it was not."""

    def charge(self, spent_s: float, elapsed_s: float, *, is_ready: bool) -> None:
        """Count what it used since the last look; a thread that is ready would use more if it could."""
        share = spent_s / elapsed_s
        self.cpu_s += spent_s
        self.rate = share if self.rate is None else (self.rate + share) / 2
        self.activity = (self.activity + (1.0 if is_ready else min(1.0, share))) / 2


def gets_on(unit: RunningUnit, neighbours: Iterable[RunningUnit], *, is_silent: bool) -> bool:
    """Tell whether a unit computes, or would if its machine had a processor for it.

    Such a unit takes as long elsewhere.
    The process of a unit that keeps the interpreter's lock is silent: the units that wait for the lock use
    little of what that one uses, whatever the machine gives to all of them.

    >>> burns, waits = RunningUnit(1, 0, 0.0, rate=0.1), RunningUnit(2, 1, 0.0, rate=0.01)
    >>> gets_on(burns, [burns, waits], is_silent=True), gets_on(waits, [burns, waits], is_silent=True)
    (True, False)
    """
    if unit.activity < ADVANCING_SHARE:
        return False
    if unit.rate is None or not is_silent:
        return True
    return unit.rate >= HOLDING_SHARE * max(one.rate or 0.0 for one in neighbours)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a reader process."""

    silent_s: float
    """Seconds since a sign of life was asked for that did not come; 0: none is due."""
    looks: int
    """Looks since then, this one included: the front itself may have had no time to see it."""
    resting_s: float
    """Seconds since the process last used CPU time."""
    is_stopped: bool
    """True where a signal holds it."""
    is_sleeping: bool
    """True where it waits for something that is not a disk."""


def verdict(look: Look) -> str:
    """Tell why this process has to be killed; empty: it does not.

    A silent one that uses CPU time holds the interpreter's lock in a long computation: its budget decides.

    >>> verdict(Look(silent_s=0.3, looks=1, resting_s=0.3, is_stopped=True, is_sleeping=False))
    'stopped'
    >>> verdict(Look(silent_s=9.0, looks=9, resting_s=0.0, is_stopped=False, is_sleeping=False))
    ''
    >>> verdict(Look(silent_s=2.0, looks=4, resting_s=2.0, is_stopped=False, is_sleeping=True))
    'stuck'
    >>> verdict(Look(silent_s=2.0, looks=1, resting_s=2.0, is_stopped=False, is_sleeping=True))
    ''
    """
    if look.is_stopped:
        return "stopped"
    is_stuck = look.looks >= STUCK_LOOKS and min(look.silent_s, look.resting_s) > STUCK_S
    return "stuck" if look.is_sleeping and is_stuck else ""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """One look at a thread."""

    cpu_s: float
    is_ready: bool
    """True where it runs or waits for a processor."""

    @classmethod
    def read(cls, pid: int, thread: int) -> ThreadState | None:
        """Read the state of a thread; None if it ended."""
        try:
            text = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()  # the name in front may hold anything
        return cls((int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])) / TICKS_PER_S, fields[0] == READY)
