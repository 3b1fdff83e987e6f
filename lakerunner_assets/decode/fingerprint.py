"""Log lines of one template share a fingerprint, in any worker on any day.

A kernel masks what varies (numbers, ids, addresses, quoted strings) into a scratch buffer; equal masked lines
are coded by their bytes, and xxh3-64 is taken once per distinct template. A change of a masking rule changes
stored values and needs a new FINGERPRINT_VERSION.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lakerunner_assets.decode.log_line_kernels import CLASSES, mask_lines
from lakerunner_assets.decode.slice_kernels import distinct
from lakerunner_assets.decode.text import string_buffers

FINGERPRINT_VERSION = 1


def fingerprints(message: pa.StringArray) -> npt.NDArray[np.int64]:
    """Return the template hash of every line, as a signed 64-bit number.

    >>> a, b, c = fingerprints(pa.array(["took 12ms, id 7f3a", "took 9ms, id 00aa", "gave up"])).tolist()
    >>> a == b, a == c
    (True, False)
    """
    offsets, text = string_buffers(message)
    masked, lines = mask_lines(offsets, text, CLASSES)
    masked.flags.writeable = False
    codes, templates = distinct(masked, lines)
    hashes = [
        xxhash.xxh3_64_intdigest(masked[start : start + length].data)
        for start, length in zip(templates.start.tolist(), templates.length.tolist(), strict=True)
    ]
    return np.array(hashes, np.uint64).view(np.int64)[codes]


def template(line: str) -> str:
    """Return the masked form of a line, for people and tests.

    >>> template('GET /u/42 from 10.0.0.1:8080 "Mozilla" in -1.5s')
    'GET /u/* from * "*" in *s'
    """
    offsets, text = string_buffers(pa.array([line], pa.string()))
    masked, lines = mask_lines(offsets, text, CLASSES)
    return masked[: lines.length[0]].tobytes().decode("utf-8", "replace")
