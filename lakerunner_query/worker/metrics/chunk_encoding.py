"""Samples become chunks in the formats of Prometheus' storage: XOR and float histogram.

A chunk is a count, then bits. Times are differences of differences, values are XORed with the value before:

    1.5 at 1000, 1.5 at 2000, 2 at 3000
    -> 00 03 | 1000, 1.5 in full | 1000, no change | no change of the distance, 11 significant bits

A value's significant bits are always announced anew, which the formats allow, so that no sample depends on
more than its neighbours: whole arrays are encoded at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakerunner_query.histogram.model import Buckets, Hint, Histogram
from resources.arrays import Doubles, Int64s, UInt64s

PER_CHUNK = 120
"""Samples of a chunk, as in Prometheus."""
BATCH_CHUNKS = 2048
"""Chunks that are encoded at once: some 50 MB of arrays."""
_WORD = 64
_ONE = np.uint64(1)
_DISTANCES = ((14, 0b10, 2), (17, 0b110, 3), (20, 0b1110, 4))
"""Bits of a change of distance in XOR chunks, and their prefixes."""
_VARBITS = (
    (3, 0b10, 2), (6, 0b110, 3), (9, 0b1110, 4), (12, 0b11110, 5), (18, 0b111110, 6), (25, 0b1111110, 7),
    (56, 0b11111110, 8),
)  # fmt: skip
"""The same of any number in histogram chunks."""
_LONGEST = (64, 0b11111111, 8)
_RESET_FLAGS = {Hint.UNKNOWN: 0x00, Hint.RESET: 0x80, Hint.NO_RESET: 0x40, Hint.GAUGE: 0xC0}
Matrix = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One encoded chunk, with the times of its first and last sample."""

    first_ms: int
    last_ms: int
    data: bytes


def xor_chunks(time_ms: Int64s, value: Doubles, offsets: Int64s) -> Iterator[list[Chunk]]:
    """Yield the chunks of each run `[offsets[i], offsets[i + 1])` of samples; times are ascending."""
    sizes = np.diff(offsets)
    per_run = -(-sizes // PER_CHUNK)
    owners = np.repeat(np.arange(len(sizes)), per_run)
    nth = np.arange(len(owners)) - np.repeat(np.cumsum(per_run) - per_run, per_run)
    begins = offsets[owners] + nth * PER_CHUNK
    ends = np.minimum(begins + PER_CHUNK, offsets[owners + 1])
    ready: list[Chunk] = []
    made = 0
    for count in per_run.tolist():
        while len(ready) < count:
            until = min(made + BATCH_CHUNKS, len(begins))
            ready += _xor_batch(time_ms, value, begins[made:until], ends[made:until])
            made = until
        yield ready[:count]
        del ready[:count]


def _xor_batch(time_ms: Int64s, value: Doubles, begins: Int64s, ends: Int64s) -> list[Chunk]:
    """Encode neighbouring chunks: a row of four numbers of bits per sample."""
    low = int(begins[0])
    times, bits = time_ms[low : ends[-1]], value[low : ends[-1]].view(np.uint64)
    starts, sizes = begins - low, ends - begins
    numbers, widths = np.zeros((len(times), 4), np.uint64), np.zeros((len(times), 4), np.int64)
    delta = np.diff(times, prepend=times[:1])
    _put_distances(numbers, widths, np.diff(delta, prepend=0))
    numbers[:, 2], widths[:, 2], numbers[:, 3], widths[:, 3] = _changes(bits, np.roll(bits, 1))
    seconds = starts[sizes > 1] + 1
    numbers[seconds, 0], widths[seconds, 0] = 0, 0
    numbers[seconds, 1], widths[seconds, 1] = _varint(delta[seconds].astype(np.uint64))
    numbers[starts, 0], widths[starts, 0] = sizes.astype(np.uint64), 16
    zigzag = (times[starts] << 1) ^ (times[starts] >> 63)
    numbers[starts, 1], widths[starts, 1] = _varint(zigzag.astype(np.uint64))
    numbers[starts, 2], widths[starts, 2] = 0, 0
    numbers[starts, 3], widths[starts, 3] = bits[starts], _WORD
    datas = _pack(numbers, widths, starts)
    firsts, lasts = times[starts].tolist(), times[ends - low - 1].tolist()
    return [Chunk(*each) for each in zip(firsts, lasts, datas, strict=True)]


def _put_distances(numbers: Matrix, widths: Int64s, change: Int64s) -> None:
    """Set columns 0 and 1 to changes of the distance between samples; 0 is a single bit."""
    numbers[:, 0], widths[:, 0] = 0b1111, 4
    numbers[:, 1], widths[:, 1] = change.astype(np.uint64), _WORD
    for size, prefix, length in reversed(_DISTANCES):
        fits = _fits(change, size)
        payload = change[fits].astype(np.uint64) & np.uint64((1 << size) - 1)
        numbers[fits, 0], widths[fits, 0] = 0, 0
        numbers[fits, 1], widths[fits, 1] = payload | np.uint64(prefix << size), size + length
    same = change == 0
    numbers[same, 1], widths[same, 1] = 0, 1


def _fits(number: Int64s, size: int) -> npt.NDArray[np.bool_]:
    half = 1 << (size - 1)
    return (number >= 1 - half) & (number <= half)


def _changes(now: Matrix, before: Matrix) -> tuple[Matrix, Int64s, Matrix, Int64s]:
    """Return announcements of significant bits with their widths, and the bits with theirs."""
    delta = now ^ before
    smeared = delta.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        smeared |= smeared >> np.uint64(shift)
    leading = np.minimum(_WORD - np.bitwise_count(smeared).astype(np.int64), 31)
    trailing = np.bitwise_count((delta & (~delta + _ONE)) - _ONE).astype(np.int64)
    changed = delta != 0
    significant = np.where(changed, _WORD - leading - trailing, 0)
    announced = np.where(changed, 0b11 << 11 | leading << 6 | significant & 63, 0)
    shifted = delta >> np.where(changed, trailing, 0).astype(np.uint64)
    return announced.astype(np.uint64), np.where(changed, 13, 1), shifted, significant


def _varint(number: UInt64s) -> tuple[UInt64s, Int64s]:
    """Return the bytes of variable-length numbers, up to eight of them, as bits with their widths."""
    found, width = np.zeros_like(number), np.zeros(len(number), np.int64)
    rest, going = number, np.ones(len(number), np.bool_)
    while going.any():
        more = rest >= 128
        byte = (rest & np.uint64(127)) | (more.astype(np.uint64) << np.uint64(7))
        found = np.where(going, found << np.uint64(8) | byte, found)
        width += np.where(going, 8, 0)
        going = going & more
        rest = rest >> np.uint64(7)
    return found, width


def _pack(numbers: Matrix, widths: Int64s, starts: Int64s) -> list[bytes]:
    """Lay bits behind each other, the highest first; each chunk begins with a byte of its own."""
    per_row = widths.sum(axis=1)
    sizes = -(-np.add.reduceat(per_row, starts) // 8)
    ends = np.cumsum(sizes)
    flat, lengths = numbers.ravel(), widths.ravel()
    at = np.cumsum(lengths) - lengths
    first = starts * numbers.shape[1]
    shift = (ends - sizes) * 8 - at[first]
    at += np.repeat(shift, np.diff(np.append(first, len(flat))))
    used = lengths > 0
    at, left = at[used], flat[used] << (_WORD - lengths[used]).astype(np.uint64)
    word, offset = at >> 6, (at & 63).astype(np.uint64)
    heads = np.flatnonzero(np.diff(word, prepend=-1))
    out = np.zeros(int(ends[-1]) // 8 + 2, np.uint64)
    out[word[heads]] = np.bitwise_or.reduceat(left >> offset, heads)
    over = np.where(offset > 0, left << ((np.uint64(_WORD) - offset) & np.uint64(63)), np.uint64(0))
    out[word[heads] + 1] |= np.bitwise_or.reduceat(over, heads)
    raw = out.astype(">u8").tobytes()
    return [raw[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]


def histogram_chunks(time_ms: Int64s, histograms: Sequence[Histogram]) -> list[Chunk]:
    """Encode the histograms of one series; a chunk ends where the layout changes, or a reset may be."""
    found: list[Chunk] = []
    begin = 0
    keys = [_layout(one) for one in histograms]
    for at in range(1, len(histograms) + 1):
        is_end = at == len(histograms) or at - begin == PER_CHUNK or keys[at] != keys[begin]
        if is_end or histograms[at].hint not in {Hint.NO_RESET, Hint.GAUGE}:
            data = _histogram_chunk(time_ms[begin:at], histograms[begin:at])
            found.append(Chunk(int(time_ms[begin]), int(time_ms[at - 1]), data))
            begin = at
    return found


def _layout(one: Histogram) -> tuple[object, ...]:
    sides = (one.positive.index.tobytes(), one.negative.index.tobytes())
    return one.schema, one.zero_threshold, *sides, one.bounds, one.hint is Hint.GAUGE


def _histogram_chunk(time_ms: Int64s, histograms: Sequence[Histogram]) -> bytes:
    first = histograms[0]
    head = _Bits()
    head.add(len(histograms), 16)
    head.add(_RESET_FLAGS[first.hint], 8)
    _put_layout(head, first)
    head.varbit(int(time_ms[0]))
    values = [(h.count, h.zero_count, h.sum, *h.positive.count, *h.negative.count) for h in histograms]
    rows = np.array(values, np.float64).view(np.uint64)
    for number in rows[0].tolist():
        head.add(number, _WORD)
    if len(rows) > 1:
        changes = np.diff(np.diff(time_ms), prepend=0).tolist()
        for change, *row in zip(changes, *_changes(rows[1:], rows[:-1]), strict=True):
            head.varbit(change)
            for announced, width, bits, size in zip(*(each.tolist() for each in row), strict=True):
                head.add(announced, width)
                head.add(bits, size)
    return head.packed()


def _put_layout(out: _Bits, one: Histogram) -> None:
    """Write zero threshold, schema, spans and, of custom buckets, their bounds."""
    fraction, exponent = math.frexp(one.zero_threshold)
    if one.zero_threshold == 0:
        out.add(0, 8)
    elif fraction == 0.5 and -242 <= exponent <= 11:
        out.add(exponent + 243, 8)
    else:
        out.add(255, 8)
        out.double(one.zero_threshold)
    out.varbit(one.schema)
    for side in (one.positive, one.negative):
        listed = spans(side)
        out.varbit_unsigned(len(listed))
        for offset, length in listed:
            out.varbit_unsigned(length)
            out.varbit(offset)
    if one.is_custom:
        out.varbit_unsigned(len(one.bounds))
        for bound in one.bounds:
            out.add(0, 1)  # a bound in full
            out.double(bound)


def spans(side: Buckets) -> list[tuple[int, int]]:
    """Return runs of neighbouring buckets: the gap before each, and its length.

    >>> spans(Buckets(np.array([-2, -1, 3]), np.ones(3)))
    [(-2, 2), (3, 1)]
    """
    if not side.size:
        return []
    begins = np.flatnonzero(np.diff(side.index, prepend=side.index[0] - 2) != 1)
    lengths = np.diff(np.append(begins, side.size))
    ends = side.index[begins] + lengths
    gaps = side.index[begins] - np.concatenate(([0], ends[:-1]))
    return list(zip(gaps.tolist(), lengths.tolist(), strict=True))


class _Bits:
    """Numbers and their widths, until they are packed."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._widths: list[int] = []

    def add(self, number: int, width: int) -> None:
        self._numbers.append(number)
        self._widths.append(width)

    def double(self, number: float) -> None:
        self.add(int(np.float64(number).view(np.uint64)), _WORD)

    def varbit(self, number: int) -> None:
        """Write a number with its sign, in as many bits as it needs."""
        halves = (1 << (size - 1) for size, _, _ in _VARBITS)
        self._prefixed(number, 2 * next((half for half in halves if 1 - half <= number <= half), 1 << 63))

    def varbit_unsigned(self, number: int) -> None:
        self._prefixed(number, next((1 << size for size, _, _ in _VARBITS if number < 1 << size), 1 << 64))

    def _prefixed(self, number: int, span: int) -> None:
        if number == 0:
            self.add(0, 1)
            return
        size, prefix, length = next((one for one in _VARBITS if 1 << one[0] == span), _LONGEST)
        self.add(prefix, length)
        self.add(number & (span - 1), size)

    def packed(self) -> bytes:
        numbers = np.array(self._numbers, np.uint64)[:, None]
        return _pack(numbers, np.array(self._widths, np.int64)[:, None], np.zeros(1, np.int64))[0]
