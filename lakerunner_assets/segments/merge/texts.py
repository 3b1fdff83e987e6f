"""Texts of a column get codes that hold over all sources.

Dictionaries in files are per row group. With one numbering, rows of several files are merged as integers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

FULL = 1 << 16
"""Number of texts from which on it pays to forget unused ones."""


class Texts:
    """A growing numbering of texts; codes stay valid until `forget`."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._array = pa.array([], pa.string())
        self.age = 0
        """Codes of another age mean nothing."""

    def __len__(self) -> int:
        return len(self._codes)

    def codes_of(self, dictionary: pa.StringArray) -> pa.Int32Array:
        known = self._codes
        return pa.array([known.setdefault(text, len(known)) for text in dictionary.to_pylist()], pa.int32())

    def array(self) -> pa.StringArray:
        """Return the text of each code."""
        if len(self._array) != len(self._codes):
            self._array = pa.array(list(self._codes), pa.string())
        return self._array

    def forget(self, used: np.ndarray) -> pa.Int32Array:
        """Keep only the codes in `used` (one flag each); return the new code of each old one."""
        texts = self.array().filter(pa.array(used))
        self._codes = {text: code for code, text in enumerate(texts.to_pylist())}
        self._array = texts
        self.age += 1
        return pa.array((np.cumsum(used) - 1).astype(np.int32))


class Recoder:
    """A translation of the codes of one column and source to those of `Texts`."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._dictionary: pa.StringArray | None = None
        self._codes = pa.array([], pa.int32())
        self._age = 0

    def recode(self, column: pa.DictionaryArray) -> pa.Int32Array:
        dictionary = column.dictionary
        if (
            self._dictionary is None
            or self._age != self._texts.age
            or not (len(dictionary) == len(self._dictionary) and dictionary.equals(self._dictionary))
        ):
            self._dictionary, self._age = dictionary, self._texts.age
            self._codes = self._texts.codes_of(dictionary)
        return self._codes.take(column.indices)
