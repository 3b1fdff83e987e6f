"""Another try, with full jitter, for failures that another try can cure.

The library's own retries are switched off: they end where the response headers arrive, so a connection lost
in the middle of a body would fail the object. Here the whole operation is the unit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from resources.store.errors import UnavailableError

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0

Result = TypeVar("Result")


def delay_bound(attempt: int) -> float:
    """The longest pause after failed attempt 1, 2, 3…

    >>> [delay_bound(n) for n in (1, 2, 3, 9)]
    [0.1, 0.2, 0.4, 5.0]
    """
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (attempt - 1))


def with_retries(
    call: Callable[[int], Result], max_retries: int, sleep: Callable[[float], None] = time.sleep
) -> Result:
    """`call(attempt)` until it succeeds, fails for good, or has been tried 1 + `max_retries` times."""
    for attempt in range(1, max_retries + 1):
        try:
            return call(attempt)
        except UnavailableError:
            sleep(random.uniform(0, delay_bound(attempt)))  # noqa: S311 - spreads load, protects nothing
    return call(max_retries + 1)
