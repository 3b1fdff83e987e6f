"""Feeds the kernels that decode pages broken bytes; run with NUMBA_BOUNDSCHECK=1.

Started by `test_plain_groups.py` in a process of its own: the check is fixed when a kernel is compiled.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.worker.parquet.dictionary_kernels import add_codes, first_page
from lakerunner_query.worker.parquet.page_kernels import OFFSET, UNKNOWN, VALUES, deltas, pages_of
from resources.arrays import Bytes
from resources.kernel import scanner

ROWS = 700


@scanner
def over_read(data: Bytes) -> int:
    return int(data[len(data)])


def chunks(folder: Path) -> list[bytes]:
    """Column chunks of numbers as differences and of texts by dictionary, uncompressed."""
    rng = np.random.default_rng(3)
    steps = np.cumsum(rng.integers(0, 1 << 40, ROWS))
    table = pa.table({"a": steps, "b": pa.array(rng.choice(["x", "y", "z"], ROWS))})
    pq.write_table(
        table, folder / "t", compression="none", use_dictionary=["b"],
        column_encoding={"a": "DELTA_BINARY_PACKED"}, max_rows_per_page=300,
    )  # fmt: skip
    raw, group = (folder / "t").read_bytes(), pq.read_metadata(folder / "t").row_group(0)
    found = []
    for column in (group.column(0), group.column(1)):
        begin = column.dictionary_page_offset or column.data_page_offset
        found.append(raw[begin : begin + column.total_compressed_size])
    return found


def outcome(raw: bytes) -> str:
    """Every kernel over the same bytes; any index that is out of bounds raises."""
    data = np.frombuffer(raw, np.uint8)
    pages = pages_of(data, ROWS)
    assert len(first_page(data)) in {0, 3}
    room, keys = np.empty(ROWS, np.int64), np.zeros(ROWS, np.int32)
    starts = [0, *(int(page[OFFSET]) for page in pages)]
    for start in starts:
        for behind in (start, start + 4, start + 10):
            numbers = deltas(data, behind, room)
            assert numbers == UNKNOWN or 0 < numbers <= ROWS
            codes = add_codes(data, behind, 3, keys)
            assert codes in {UNKNOWN, ROWS}
            keys[:] = 0
    if not len(pages):
        return "rejected"
    assert int(pages[:, VALUES].sum()) == ROWS
    return "told"


def broken(rng: random.Random, whole: bytes) -> bytes:
    """A few bytes changed, most of them where headers are."""
    raw = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(raw), 60)) if rng.random() < 0.7 else rng.randrange(len(raw))
        raw[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(raw[: rng.randrange(len(raw) + 1)]) if rng.random() < 0.2 else bytes(raw)


def main() -> None:
    try:
        over_read(np.zeros(3, np.uint8))
    except IndexError:
        pass
    else:
        raise AssertionError("bounds checking is off: this run would prove nothing")
    rng = random.Random(11)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        samples = chunks(Path(folder))
    assert outcome(samples[0]) == "told"
    for _ in range(int(sys.argv[1])):
        seen[outcome(broken(rng, rng.choice(samples)))] += 1
        seen[outcome(rng.randbytes(rng.randint(0, 80)))] += 1
        seen[outcome(bytes(rng.choice((0x15, 0x2C, 0x80, 0xFF, 0x06, 0x18, 0x1C)) for _ in range(40)))] += 1
    assert min(seen["told"], seen["rejected"]) > 0, seen
    print(dict(seen))


if __name__ == "__main__":
    main()
