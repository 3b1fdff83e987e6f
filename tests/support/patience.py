"""Tests wait for conditions with one patience, which no machine uses up unless something is broken.

Three lanes of tests share two cores, and machines freeze for seconds: a time that a test asserts, or a short
one that it waits, fails there without a fault. Waiting long costs nothing where the condition comes true.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

FoundT = TypeVar("FoundT")
PATIENCE_S = 600.0
"""Seconds that a test waits for what has to happen."""
PAUSE_S, MOST_PAUSE_S = 0.05, 0.5


def wait_for(
    condition: Callable[[], FoundT], what: str = "the condition", *, pause_s: float = PAUSE_S
) -> FoundT:
    """Return the first truthy answer of `condition`; it is asked less often the longer it takes.

    >>> wait_for(iter([0, 0, 7]).__next__, pause_s=0)
    7
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        is_last = time.monotonic() > deadline  # before the look: the machine may freeze behind it
        if found := condition():
            return found
        assert not is_last, f"{what} did not come true within {PATIENCE_S:.0f} s"
        time.sleep(pause_s)
        pause_s = min(MOST_PAUSE_S, 1.1 * pause_s)


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Let the event loop run until the condition is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {PATIENCE_S:.0f} s"
        await asyncio.sleep(PAUSE_S / 10)
