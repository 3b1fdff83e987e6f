"""Many label sets as a few arrays: what a series table holds, without an object per label.

{__name__="up", job="a"}     offsets 0 2 3     names  0 1 0    of  __name__ job
{__name__="up"}                                values 0 1 0    of  up a
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lakerunner_assets.segments.merge.kernels import label_hashes
from resources.arrays import Int32s, Int64s
from resources.lake.series import NAME_LABEL
from resources.lake.streams import Labels


@dataclass(frozen=True, slots=True)
class LabelSets:
    offsets: Int64s
    names: Int32s
    values: Int32s
    name_texts: tuple[str, ...]
    value_texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def hashes(self) -> Int64s:
        """A second hash beside `chq_tid`: two sets that share both are taken for one."""
        return label_hashes(
            self.offsets, self.names, self.values, _hashes(self.name_texts), _hashes(self.value_texts)
        )

    def metric_names(self) -> Int32s:
        """For each set the code of its `__name__` in `value_texts`, -1 without one."""
        found = np.full(len(self), -1, np.int32)
        if NAME_LABEL in self.name_texts:
            entries = np.flatnonzero(self.names == self.name_texts.index(NAME_LABEL))
            found[np.searchsorted(self.offsets, entries, "right") - 1] = self.values[entries]
        return found

    def take(self, rows: Int64s) -> LabelSets:
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return LabelSets(
            offsets, self.names[entries], self.values[entries], self.name_texts, self.value_texts
        )

    def labels(self) -> list[Labels]:
        names, values = self.name_texts, self.value_texts
        pairs = [
            (names[n], values[v]) for n, v in zip(self.names.tolist(), self.values.tolist(), strict=True)
        ]
        borders = self.offsets.tolist()
        return [tuple(pairs[start:end]) for start, end in pairwise(borders)]

    def texts(self) -> pa.StringArray:
        """As `streams.labels_to_text` spells them."""
        opening, closing = (_spelled(texts) for texts in (self.name_texts, self.value_texts))
        pairs = pc.binary_join_element_wise(
            opening.take(pa.array(self.names)), closing.take(pa.array(self.values)), ","
        )
        pairs = pc.binary_join_element_wise("[", pairs, "]", "")
        lists = pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), pairs)
        return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")

    def map_array(self) -> pa.MapArray:
        """As the series table stores them: dictionaries of what is used, in the order it is met."""
        names, values = (
            pa.array(texts, pa.string()).take(pa.array(codes)).dictionary_encode()
            for texts, codes in ((self.name_texts, self.names), (self.value_texts, self.values))
        )
        return pa.MapArray.from_arrays(pa.array(self.offsets.astype(np.int32)), names, values)

    def values_by_name(self) -> dict[str, set[str]]:
        """The values each label has somewhere."""
        width = max(len(self.value_texts), 1)
        pairs = np.unique(self.names.astype(np.int64) * width + self.values)
        found: dict[str, set[str]] = {}
        for name, value in zip((pairs // width).tolist(), (pairs % width).tolist(), strict=True):
            found.setdefault(self.name_texts[name], set()).add(self.value_texts[value])
        return found


def from_map(column: pa.MapArray) -> LabelSets:
    """Of the column `labels` of a series table."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    names, values = column.keys, column.items
    return LabelSets(
        offsets,
        names.indices.to_numpy(),
        values.indices.to_numpy(),
        tuple(names.dictionary.to_pylist()),
        tuple(values.dictionary.to_pylist()),
    )


def joined(parts: Sequence[LabelSets]) -> LabelSets:
    """All sets of the parts in their order, texts once."""
    name_codes: dict[str, int] = {}
    value_codes: dict[str, int] = {}
    names, values, lengths = [], [], []
    for part in parts:
        names.append(_recoded(part.name_texts, part.names, name_codes))
        values.append(_recoded(part.value_texts, part.values, value_codes))
        lengths.append(np.diff(part.offsets))
    return LabelSets(
        np.concatenate(([0], np.cumsum(np.concatenate(lengths)))),
        np.concatenate(names),
        np.concatenate(values),
        tuple(name_codes),
        tuple(value_codes),
    )


def _recoded(texts: Sequence[str], codes: Int32s, known: dict[str, int]) -> Int32s:
    """The codes in `known`, which learns what is used here and new."""
    used = np.unique(codes)
    place = np.zeros(len(texts) + 1, np.int32)
    place[used] = [known.setdefault(texts[code], len(known)) for code in used.tolist()]
    return place[codes]


def _hashes(texts: Sequence[str]) -> Int64s:
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64).view(np.int64)


def _spelled(texts: Sequence[str]) -> pa.StringArray:
    return pa.array([json.dumps(text, ensure_ascii=False) for text in texts], pa.string())
