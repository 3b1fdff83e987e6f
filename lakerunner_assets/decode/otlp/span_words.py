"""Kinds and status codes of spans in words; a number that OTLP does not name yet stays as its digits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KIND_NAMES = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS_NAMES = ("unset", "ok", "error")


def words(numbers: npt.NDArray[np.int64], names: tuple[str, ...]) -> pa.DictionaryArray:
    """
    >>> words(np.array([2, 0, 9, -1]), STATUS_NAMES).to_pylist()
    ['error', 'unset', '9', '-1']
    """
    codes = numbers.astype(np.int32)
    odd = np.flatnonzero((numbers < 0) | (numbers >= len(names)))
    unknown, places = np.unique(numbers[odd], return_inverse=True)
    codes[odd] = len(names) + places
    return pa.DictionaryArray.from_arrays(
        pa.array(codes), pa.array([*names, *(str(number) for number in unknown.tolist())])
    )
