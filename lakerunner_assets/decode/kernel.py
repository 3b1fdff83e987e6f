"""The one way this package compiles a numba kernel.

Kernels release the GIL and are cached on disk, because the first compilation costs seconds. Small ones call
each other freely: LLVM inlines them, and numba's own `inline` would only make compilation slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np

Integer = int | np.int64
"""What kernels count and point with: Python's own outside of them, 64 bits inside."""

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile on first call, keep on disk, run without the GIL."""
    return cast("Function", numba.njit(nogil=True, cache=True)(function))
