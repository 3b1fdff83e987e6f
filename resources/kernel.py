"""Numba kernels are compiled on first call, kept on disk, and run without the GIL.

Compiling all of them takes a minute, so `kernel_cache.py` gives each state of their sources a folder.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.event import install_recorder
from numba.core.types.misc import unliteral

from resources.kernel_cache import WARM_UPS, cache_folder

Integer = int | np.int64
"""A count or position: Python's own outside of kernels, 64 bits inside."""

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile on first call, keep on disk, run without the GIL."""
    return _compiled(function)


def scanner(function: Function) -> Function:
    """Make a kernel that allocates nothing, compiled without reference counting of its array arguments.

    Scanners call each other for every field; counting every time made them six times slower.
    """
    return _compiled(function, _nrt=False)


def inlined(function: Function) -> Function:
    """Make a scanner so small that LLVM copies it into its callers.

    Numba's own `inline="always"` copies before types are known and infers them at every call site: all
    decoders then take 127 CPU seconds to compile instead of 74, and run no faster.
    """
    return _compiled(function, _nrt=False, forceinline=True)


@contextmanager
def count_compilations() -> Iterator[list[int]]:
    """Yield a list of one number: after the block, the functions that were compiled in it.

    The collector of garbage runs rarely meanwhile: it would look at numba's many objects in vain, for 9 % of
    the time.
    """
    counts, thresholds = [0], gc.get_threshold()
    gc.set_threshold(200_000, 50, 50)
    try:
        with install_recorder("numba:compile") as recorder:
            yield counts
    finally:
        gc.set_threshold(*thresholds)
    counts[0] = sum(event.is_start for _, event in recorder.buffer)


def _compiled(function: Function, **options: object) -> Function:
    numba.config.CACHE_DIR = _folder(function.__module__)  # read by numba when it decorates
    # no wrapper for calls from C: nobody calls kernels by address, and it takes 7 % of the time to compile
    dispatcher = numba.njit(nogil=True, cache=True, no_cfunc_wrapper=True, **options)(function)
    dispatcher.get_call_template = partial(_call_template, dispatcher)
    return cast("Function", dispatcher)


def _call_template(dispatcher: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Resolve a call from another kernel; numba would compile anew for every constant that is passed."""
    plain = tuple(unliteral(argument) for argument in arguments)
    plain_named = {name: unliteral(argument) for name, argument in named.items()}
    return type(dispatcher).get_call_template(dispatcher, plain, plain_named)


@cache
def _folder(module: str) -> str:
    return str(cache_folder(WARM_UPS[0] if module == "__main__" else module))
