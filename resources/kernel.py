"""How this package compiles numba kernels.

Kernels release the GIL and are kept on disk (`kept.py`), because compiling all of them takes half a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

import numba
import numpy as np

from resources.kernel_cache import WARMING, cache_folder

Integer = int | np.int64
"""What kernels count and point with: Python's own outside of them, 64 bits inside."""

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile on first call, keep on disk, run without the GIL."""
    return _compiled(function)


def scanner(function: Function) -> Function:
    """A kernel that allocates nothing, compiled without reference counting of its array arguments.

    Scanners call each other for every field; counting every time made them six times slower.
    """
    return _compiled(function, _nrt=False)


def inlined(function: Function) -> Function:
    """A scanner so small that it is copied into its callers before types are known."""
    return _compiled(function, _nrt=False, inline="always")


def _compiled(function: Function, **options: object) -> Function:
    numba.config.CACHE_DIR = _folder(function.__module__)  # read by numba when it decorates
    return cast("Function", numba.njit(nogil=True, cache=True, **options)(function))


@cache
def _folder(module: str) -> str:
    return str(cache_folder(WARMING if module == "__main__" else module))
