"""Which shard of the series a series belongs to: a hash of what it shares with the series it may be one with.

    wait_bucket{path="/", le="0.5"}   sent as a float   -> family wait{path="/"}
    wait{path="/"}                    a histogram       -> family wait{path="/"}

The classic series of a histogram become one with stored series of the same labels. Whatever can become one is
in one family and so in one shard; that is why the id of the stored label set is not what decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from resources.arrays import UInt64s
from resources.lake.series import NAME_LABEL

OF_A_MEMBER = ("le", "quantile")
"""Labels that tell the members of a family apart."""
SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Shard:
    """Series whose family is `number`, modulo `count`."""

    number: int
    count: int

    def takes(self, families: UInt64s) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = families % np.uint64(self.count) == np.uint64(self.number)
        return found


def families(
    names: Mapping[str, int],
    texts: Sequence[str],
    offsets: npt.NDArray[np.int32],
    keys: npt.NDArray[np.int32],
    values: npt.NDArray[np.int32],
) -> UInt64s:
    """By series of a table, the same in all tables and processes; labels are as in `SeriesTable`."""
    of_values = _hashes(list(texts))[values]
    if NAME_LABEL in names:
        are_names = keys == names[NAME_LABEL]
        used, where = np.unique(values[are_names], return_inverse=True)
        of_values[are_names] = _hashes([stem(texts[code]) for code in used.tolist()])[where.ravel()]
    entries = _mixed(_hashes(list(names))[keys] + _mixed(of_values))
    for label in OF_A_MEMBER:
        entries[keys == names.get(label, -1)] = 0
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)))
    return _mixed(running[offsets[1:]] - running[offsets[:-1]])  # of a sum: the order of labels says nothing


def stem(name: str) -> str:
    """Without what stands behind the names of classic series, however often it does.

    >>> stem("wait_bucket"), stem("wait_count_bucket"), stem("wait")
    ('wait', 'wait', 'wait')
    """
    while name.endswith(SUFFIXES):
        name = name[: name.rindex("_")]
    return name


def _hashes(texts: Sequence[str]) -> UInt64s:
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64)


def _mixed(numbers: UInt64s) -> UInt64s:
    """The last steps of splitmix64: every bit of the result depends on every bit."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: UInt64s = numbers ^ (numbers >> np.uint64(31))
    return found
