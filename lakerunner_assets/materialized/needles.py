"""Line filters for plain texts are tested together, in one pass.

|= "timeout"   != "debug"   |= "a=1" or "a=2"      four texts, one pass
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.materialized.needle_kernels import SLOTS, mark_needles
from lakerunner_query.logql.kernels.strings import text_of
from lakerunner_query.logql.lang.ast import LineFilter, Stage
from resources.arrays import Bytes, Flags, Int16s, Int64s

SHORTEST = 2
"""Bytes of the shortest text: a pair of bytes finds it."""
MOST_WINDOW = 64
_COMMON = b' e0ta1on2i3=rsl5d46789:c/.,-"umpfghbvwkyx_'
_RARITY = np.full(256, len(_COMMON), np.int64)
_RARITY[np.frombuffer(_COMMON, np.uint8)] = np.arange(len(_COMMON))


def is_plain(stage: Stage) -> bool:
    """Tell if a stage only looks for texts as they stand."""
    if not isinstance(stage, LineFilter) or stage.op.is_regex or stage.op.is_pattern or stage.ips:
        return False
    return all(len(value.encode()) >= SHORTEST for value in stage.values)


@dataclass(frozen=True, slots=True)
class Needles:
    """Texts of several filters, as the kernel takes them."""

    filters: tuple[LineFilter, ...]
    places: Mapping[str, int]
    """Number of each text."""
    data: Bytes
    starts: Int64s
    anchors: Int64s
    window: int
    """Bytes of the part of each text that is looked for; the more, the more of a line is skipped."""
    skips: Bytes
    heads: Int16s
    following: Int64s

    @classmethod
    def of(cls, filters: Sequence[LineFilter]) -> Needles:
        texts = list(dict.fromkeys(value for one in filters for value in one.values))
        raw = [value.encode() for value in texts]
        window = min(MOST_WINDOW, *map(len, raw))
        anchors = np.array([window - 2 + _rarest_pair(one[window - 2 :]) for one in raw], np.int64)
        starts = np.concatenate(([0], np.cumsum([len(one) for one in raw]))).astype(np.int64)
        data = np.frombuffer(b"".join(raw), np.uint8)
        heads, following = np.full(SLOTS, -1, np.int16), np.full(len(raw), -1, np.int64)
        skips = np.full(SLOTS, window - 1, np.uint8)
        for back in range(window - 1):
            slots = _slots(data, starts[:-1] + anchors - back)
            skips[slots] = np.minimum(skips[slots], back)
        for number, slot in enumerate(_slots(data, starts[:-1] + anchors).tolist()):
            following[number], heads[slot] = heads[slot], number
        places = {text: number for number, text in enumerate(texts)}
        return cls(tuple(filters), places, data, starts, anchors, window, skips, heads, following)

    def test(self, lines: pa.StringArray) -> dict[LineFilter, Flags]:
        """Flag by filter the lines that pass."""
        text = text_of(lines)
        found = np.zeros((len(self.places), len(lines)), np.bool_)
        mark_needles(
            text.data, text.offsets, self.data, self.starts, self.anchors, self.window, self.skips,
            self.heads, self.following, found,
        )  # fmt: skip
        return {one: self._passing(one, found) for one in self.filters}

    def _passing(self, one: LineFilter, found: Flags) -> Flags:
        flags: Flags = np.logical_or.reduce([found[self.places[value]] for value in one.values])
        return ~flags if one.op.is_negative else flags


def _slots(data: Bytes, places: Int64s) -> Int64s:
    """Return the slots of the pairs of bytes at these places."""
    found: Int64s = ((data[places].astype(np.int64) << 4) ^ data[places + 1]) & (SLOTS - 1)
    return found


def _rarest_pair(text: bytes) -> int:
    rarity = _RARITY[np.frombuffer(text, np.uint8)]
    return int(np.argmax(rarity[:-1] + rarity[1:]))
