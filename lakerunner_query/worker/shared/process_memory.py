"""A worker process keeps the memory that it freed, and touches some before the first query.

The first touch of a page costs microseconds, on a virtual machine more than decoding the samples that it then
holds. By default the C library gives large arrays back to the system, and the next query pays again.
"""

from __future__ import annotations

import ctypes

import numpy as np

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of `mallopt` in the GNU C library."""
RETAINED_BYTES = 512 << 20
"""Free memory at the end of the heap that is not given back."""
LARGEST_RETAINED = 1 << 30
"""Larger arrays go back to the system as soon as they are free."""
PAGE = 4096


def retain_freed_memory() -> bool:
    """Make the C library keep freed arrays, before threads start; False where it has no such option."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGEST_RETAINED), (_TRIM_THRESHOLD, RETAINED_BYTES))
    return all(mallopt(option, value) == 1 for option, value in options)


def touch_memory(size: int) -> None:
    """Allocate and free memory, every page of it touched: the first queries find it in the heap."""
    np.empty(size, np.uint8)[::PAGE] = 0
