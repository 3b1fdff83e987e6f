"""Memory operations that numba lacks: memcpy, unaligned stores, prefetches, eight numbers at once.

A loop over bytes is compiled to checks of overlap before every short run, and an assignment of slices costs
more than the run itself. Everything that moves bytes checks its bounds: nothing else would, also in tests.

`benchmarks.kernels.decode`: `gather`, a loop of prefetches and copies, is 20 times as fast as `pa.array` of
slices.
"""
# ruff: noqa: ARG001  numba reads the parameters of an intrinsic, its body only their types

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from resources.arrays import Bytes
from resources.kernel import Integer, inlined

Generated = tuple[Any, Callable[..., Any]]
Words = npt.NDArray[np.uint32]


@intrinsic
def _copy(_context: Any, target: Any, at: Any, source: Any, start: Any, length: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = _address(context, builder, signature, arguments, 0)
        begin = _address(context, builder, signature, arguments, 2)
        cgutils.raw_memcpy(builder, to, begin, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def _store(_context: Any, target: Any, at: Any, word: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments, 0)
        builder.store(arguments[2], builder.bitcast(place, arguments[2].type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, types.uint64), generate


@intrinsic
def fetch_ahead(_context: Any, source: Any, at: Any) -> Generated:
    """Prefetch the cache line of `source[at]`; it never faults, whatever `at` is.

    One column's values lie hundreds of bytes apart in a payload: each of them waits for memory otherwise.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments, 0)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [place, number(0), number(3), number(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(source, types.int64), generate


@intrinsic
def first_set(_context: Any, bits: Any) -> Generated:
    """Count the zero bits below the lowest one; 64 when there is none."""

    def generate(_inner: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def trailing_zeros(_context: Any, word: Any) -> Generated:
    """Count the zero bits below the lowest one of a word that is not 0."""

    def generate(_inner: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def _set_eight(_context: Any, words: Any, at: Any, low: Any, salts: Any) -> Generated:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = ir.VectorType(ir.IntType(32), 8)
        place = builder.bitcast(_address(context, builder, signature, arguments, 0), eight.as_pointer())
        factors = builder.bitcast(
            context.make_array(signature.args[3])(context, builder, arguments[3]).data, eight.as_pointer()
        )
        undefined = ir.Constant(eight, ir.Undefined)
        first = ir.Constant(ir.IntType(32), 0)
        one = builder.insert_element(undefined, arguments[2], first)
        same = builder.shuffle_vector(one, undefined, ir.Constant(eight, [0] * 8))
        mixed = builder.mul(same, builder.load(factors, align=4))
        bits = builder.shl(ir.Constant(eight, [1] * 8), builder.lshr(mixed, ir.Constant(eight, [27] * 8)))
        builder.store(builder.or_(builder.load(place, align=4), bits), place, align=4)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint32, salts), generate


@inlined
def copy_bytes(target: Bytes, at: Integer, source: Bytes, start: Integer, length: Integer) -> None:
    """Copy `source[start : start + length]` to `target[at : at + length]` of contiguous arrays."""
    if min(at, start, length) < 0 or at + length > len(target) or start + length > len(source):
        raise IndexError("copy of bytes that are not in their array")
    _copy(target, at, source, start, length)


@inlined
def store_word(target: Bytes, at: Integer, word: np.uint64) -> None:
    """Store eight bytes, little endian, at `target[at : at + 8]`."""
    if at < 0 or at + 8 > len(target):
        raise IndexError("store of bytes that are not in their array")
    _store(target, at, word)


@inlined
def set_eight_bits(words: Words, at: Integer, low: np.uint32, salts: Words) -> None:
    """Set one bit in each of eight words from `at`: the top five bits of `low * salt` name it."""
    if at < 0 or at + 8 > len(words) or len(salts) < 8:
        raise IndexError("bits of words that are not in their array")
    _set_eight(words, at, low, salts)


def _address(context: Any, builder: Any, signature: Any, arguments: Any, place: int) -> Any:
    """Return the address of the element that the argument behind array `arguments[place]` points at."""
    array = context.make_array(signature.args[place])(context, builder, arguments[place])
    return builder.gep(array.data, [arguments[place + 1]])
