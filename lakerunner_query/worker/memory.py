"""How a worker process holds memory: what was given back stays at hand, and some is there from the start.

The first touch of a page of memory costs microseconds, on a virtual machine more than decoding the samples
that it then holds. By default the C library gives large arrays back to the system at once, and the next query
pays again. Samples are large arrays, so a worker keeps what it had.
"""

from __future__ import annotations

import ctypes

import numpy as np

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of `mallopt` of the GNU C library."""
KEPT = 512 << 20
"""Free memory at the end of the heap that is not given back."""
LARGEST = 1 << 30
"""Arrays beyond this are the system's as soon as they are not used."""
PAGE = 4096


def keep_what_was_freed() -> bool:
    """Before there are threads; whether this C library can be told."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    asked = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGEST), (_TRIM_THRESHOLD, KEPT))
    return all(mallopt(option, value) == 1 for option, value in asked)


def have_at_hand(size: int) -> None:
    """Touch so many bytes once: the first queries find them."""
    np.empty(size, np.uint8)[::PAGE] = 0
