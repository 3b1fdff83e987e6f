"""Doubles that one multiplication does not round right: collected while scanning, read here, patched in.

Arrow reads them all at once (its reader rounds correctly); where it sees no double in a text, because it is
too large or too small, Python's reader decides.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.fields import Matrix, Spans
from lakerunner_assets.decode.text import strings
from resources.arrays import Bytes
from resources.kernel import kernel

TARGET, START, LENGTH = range(3)
"""Columns of a row: where the double belongs, and its text."""
WIDTH = 3
SHORTEST = 4
"""Bytes of the shortest text that is left to us, `1e23`: there are not more of them than so many bytes."""


def doubles(data: Bytes, fixes: Matrix) -> npt.NDArray[np.float64]:
    """The values of the texts in `data`; what is too large for a double is infinite."""
    texts = strings(data, Spans(fixes[:, START].copy(), fixes[:, LENGTH].astype(np.int32)), Counter())
    try:
        return np.asarray(pc.cast(texts, pa.float64()), np.float64)
    except pa.ArrowInvalid:
        return np.array([float(text) for text in texts.to_pylist()])


@kernel
def patch(out: Bytes, fixes: Matrix, bits: npt.NDArray[np.int64]) -> None:
    """Write each as eight bytes at its target; targets below 0 are none in `out`."""
    for row in range(len(fixes)):
        at = fixes[row, 0]
        if at >= 0:
            for index in range(8):
                out[at + index] = np.uint8(np.uint64(bits[row]) >> np.uint64(8 * index) & np.uint64(255))
