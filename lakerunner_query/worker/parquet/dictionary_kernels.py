"""Pages of dictionary codes, and rows counted by codes and time.

Codes are runs of one value or packed to so many bits, as Parquet mixes both; the codes of several columns
become one key. What these kernels do not know, or what contradicts the footer, they say with `UNKNOWN`.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.worker.parquet.page_kernels import (
    FACTS,
    MASKS,
    MOST_BYTES,
    PLAIN_BYTES,
    STORED_BYTES,
    UNKNOWN,
    header,
    packed,
    varint,
    word,
)
from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import Integer, kernel, scanner

_DEPTH = 4
_WIDEST = 24
_1, _3, _7 = np.uint64(1), np.uint64(3), np.uint64(7)


@kernel
def first_page(chunk: Bytes) -> Int64s:
    """Where the bytes of the first page begin and end, and how many they are decompressed; or nothing."""
    facts = np.zeros(FACTS, np.int64)
    at = header(chunk, 0, facts, np.zeros(_DEPTH, np.int64), np.zeros(_DEPTH, np.int64))
    stored, plain = facts[STORED_BYTES], facts[PLAIN_BYTES]
    if at == UNKNOWN or not 0 <= stored <= len(chunk) - at or not 0 <= plain <= MOST_BYTES:
        return facts[:0]
    return np.array([at, at + stored, plain])


@kernel
def add_codes(data: Bytes, at: Integer, size: Integer, keys: Int32s) -> Integer:
    """`key * size + code` for every row of a page; `UNKNOWN` where a code is not below `size`, too."""
    if at >= len(data) or data[at] > _WIDEST:
        return UNKNOWN
    width = np.int64(data[at])
    at += 1
    done: Integer = 0
    while done < len(keys):
        at, raw = varint(data, at)
        groups = np.int64(raw >> _1)
        if at > len(data) or groups < 1 or groups > 1 << 40:
            return UNKNOWN
        if raw & _1:
            if at + groups * width > len(data):
                return UNKNOWN
            count: Integer = min(8 * groups, len(keys) - done)
            if _unpacked(data, at, width, size, keys[done : done + count]) == UNKNOWN:
                return UNKNOWN
            at += groups * width
        else:
            count = min(groups, len(keys) - done)
            stored = (width + 7) >> 3
            code = np.int64(packed(data, at, 0, 8 * stored))
            at += stored
            if at > len(data) or code >= size:
                return UNKNOWN
            for row in range(done, done + count):
                keys[row] = keys[row] * size + code
        done += count
    return done


@scanner
def _unpacked(data: Bytes, at: Integer, width: Integer, size: Integer, keys: Int32s) -> Integer:
    most = np.uint64(0)
    bit, step, mask = np.uint64(at) << _3, np.uint64(width), MASKS[width]
    whole: Integer = 0
    if width > 0:  # as many as surely have eight bytes of data from where they begin
        whole = max(0, min(len(keys), ((len(data) - at - 8) << 3) // width))
    for row in range(whole):
        code = (word(data, bit >> _3) >> (bit & _7)) & mask
        keys[row] = keys[row] * size + np.int64(code)
        most = max(most, code)
        bit += step
    for row in range(whole, len(keys)):
        far = row * width
        code = packed(data, at + (far >> 3), far & 7, width)
        keys[row] = keys[row] * size + np.int64(code)
        most = max(most, code)
    return UNKNOWN if np.int64(most) >= size else 0


@kernel
def count_keys(keys: Int32s, counts: Int64s) -> None:
    """All rows in the only bucket."""
    for row in range(len(keys)):
        counts[keys[row], 0] += 1


@kernel
def count_rows(
    times: Int64s,
    keys: Int32s,
    first_ns: Integer,
    end_ns: Integer,
    width_ns: Integer,
    counts: Int64s,
) -> Integer:
    """Rows of `[first_ns, end_ns)` by key and bucket, the first of which begins at `first_ns`.

    Times ascend within a template, so that the bucket is nearly always that of the row before.
    """
    low, high = np.int64(1), np.int64(0)
    bucket = np.int64(0)
    for row in range(len(times)):
        time = times[row]
        if time < low or time >= high:
            if time < first_ns or time >= end_ns:
                continue
            bucket = (time - first_ns) // width_ns
            if bucket >= counts.shape[1]:
                return UNKNOWN
            low = first_ns + bucket * width_ns
            high = low + width_ns  # the last one ends with the range
        counts[keys[row], bucket] += 1
    return 0
