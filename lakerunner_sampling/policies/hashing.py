"""Randomness of traces: the collector's FNV-1a hash, and OpenTelemetry's 56 bits with their thresholds.

>>> threshold_of(0.25) == NEVER * 3 // 4, t_value(threshold_of(0.25)), t_value(ALWAYS)
(True, 'c', '0')
>>> hash_limit(10.0) / 2**64
0.1
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resources.arrays import Int64s

ALWAYS = 0
NEVER = 1 << 56
"""Threshold below which every randomness of 56 bits lies."""
UInt64s = npt.NDArray[np.uint64]
DEFAULT_SALT = "default-hash-seed"
_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_ID_BYTES = 16
_DIGITS = 14
_TH = re.compile(r"(?:^|;)th:([0-9a-f]{1,14})(?=;|$)")


def id_bytes(trace_ids: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """Return ids of 16 bytes as rows."""
    fixed = trace_ids.cast(pa.binary(_ID_BYTES)).combine_chunks()
    chunk = fixed.chunk(0) if isinstance(fixed, pa.ChunkedArray) else fixed
    flat = np.frombuffer(chunk.buffers()[1] or b"", np.uint8)
    start = chunk.offset * _ID_BYTES
    return flat[start : start + len(chunk) * _ID_BYTES].reshape(len(chunk), _ID_BYTES)


def fnv_hashes(salt: str, ids: npt.NDArray[np.uint8]) -> UInt64s:
    """Hash salt and trace id with FNV-1a of 64 bits, as the collector's `probabilistic` does."""
    state = _OFFSET
    for byte in (salt or DEFAULT_SALT).encode():
        state = ((state ^ byte) * _PRIME) & _MASK
    hashes = np.full(len(ids), state, np.uint64)
    prime = np.uint64(_PRIME)
    for place in range(ids.shape[1]):
        hashes ^= ids[:, place]
        hashes *= prime
    return hashes


def hash_limit(percentage: float) -> int:
    """Return the greatest hash that is kept, as Go's `big.Float` of 64 bits computes it."""
    exact = Fraction(_MASK) * Fraction(percentage / 100)
    if exact <= 0:
        return 0
    shift = max(exact.numerator.bit_length() - exact.denominator.bit_length() - 64, -1200)
    while exact / Fraction(2) ** shift >= 1 << 64:
        shift += 1
    while exact / Fraction(2) ** shift < 1 << 63:
        shift -= 1
    rounded = round(exact / Fraction(2) ** shift) * Fraction(2) ** shift
    return min(int(rounded), _MASK)


def trace_randomness(ids: npt.NDArray[np.uint8]) -> Int64s:
    """Return the low 56 bits of trace ids, which W3C's level 2 says are random."""
    low = np.ascontiguousarray(ids[:, 8:]).view(">u8").ravel() & np.uint64(NEVER - 1)
    return low.astype(np.int64)


def threshold_of(probability: float) -> int:
    """Return the threshold that keeps this share; 0 keeps all, `NEVER` none."""
    if probability >= 1:
        return ALWAYS
    if probability < 1 / NEVER:
        return NEVER
    return NEVER - int(probability * NEVER + 0.5)


def t_value(threshold: int) -> str:
    """Write a threshold as `th` has it: 14 hex digits without trailing zeros."""
    return "0" if threshold == ALWAYS else f"{threshold:0{_DIGITS}x}".rstrip("0")


def with_threshold(trace_state: str, threshold: int) -> str:
    """Write `th` into a span's tracestate, unless a stricter one stands there.

    >>> with_threshold("a=b,ot=rv:abcdef12345678;th:8", threshold_of(0.25))
    'ot=rv:abcdef12345678;th:c,a=b'
    >>> with_threshold("ot=th:c", ALWAYS), with_threshold("", threshold_of(0.5))
    ('ot=th:c', 'ot=th:8')
    """
    members = [member.strip() for member in trace_state.split(",") if member.strip()]
    ours = next((member for member in members if member.startswith("ot=")), "ot=")
    found = _TH.search(ours[3:])
    if found and int(found[1].ljust(_DIGITS, "0"), 16) > threshold:
        return trace_state
    rest = [each for each in ours[3:].split(";") if each and not each.startswith("th:")]
    entry = "ot=" + ";".join([*rest, f"th:{t_value(threshold)}"])
    return ",".join([entry, *(member for member in members if not member.startswith("ot="))])
