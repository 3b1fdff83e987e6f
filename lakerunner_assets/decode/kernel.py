"""How this package compiles numba kernels.

Kernels release the GIL and are kept on disk (`kept.py`), because compiling all of them takes half a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np

from lakerunner_assets.decode.kept import cache_folder

Integer = int | np.int64
"""What kernels count and point with: Python's own outside of them, 64 bits inside."""

Function = TypeVar("Function", bound=Callable[..., object])


numba.config.CACHE_DIR = str(cache_folder())


def kernel(function: Function) -> Function:
    """Compile on first call, keep on disk, run without the GIL."""
    return cast("Function", numba.njit(nogil=True, cache=True)(function))


def scanner(function: Function) -> Function:
    """A kernel that allocates nothing, compiled without reference counting of its array arguments.

    Scanners call each other for every field; counting every time made them six times slower.
    """
    return cast("Function", numba.njit(nogil=True, cache=True, _nrt=False)(function))


def inlined(function: Function) -> Function:
    """A scanner so small that it is copied into its callers before types are known."""
    return cast("Function", numba.njit(nogil=True, cache=True, _nrt=False, inline="always")(function))
