"""Feeds broken bytes to everything that decodes pages; run with NUMBA_BOUNDSCHECK=1.

Started by `test_plain_groups.py` in a process of its own: the check is fixed when a kernel is compiled.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.parquet.column_chunks import (
    Chunk,
    DictionaryChunk,
    behind_levels,
    delta_pages,
    plain_integers,
    plain_texts,
)
from lakerunner_query.worker.parquet.dictionary_kernels import add_codes, dictionary_page
from lakerunner_query.worker.parquet.page_kernels import OFFSET, UNKNOWN, VALUES, deltas, pages_of
from lakerunner_query.worker.parquet.run_kernels import (
    OUT_OF_RANGE,
    add_up,
    copy_runs,
    count_keys,
    count_rows,
    cut_runs,
    place_times,
    place_values,
)
from lakerunner_query.worker.parquet.scaled_groups import ScaledGroup
from lakerunner_query.worker.parquet.text_kernels import copy_texts, mark_texts, text_places
from lakerunner_query.worker.shared.segment_file import LocalFile
from resources.arrays import Bytes
from resources.kernel import scanner

ROWS = 700
CODECS = {"none": None, "zstd": "zstd"}


@scanner
def over_read(data: Bytes) -> int:
    return int(data[len(data)])


def chunks(folder: Path) -> list[tuple[bytes, Chunk]]:
    """Column chunks of differences and of dictionaries, with and without levels, compressed and plain."""
    rng = np.random.default_rng(3)
    steps = np.cumsum(rng.integers(0, 1 << 40, ROWS))
    columns = [steps, rng.choice(["x", "y", "z"], ROWS), rng.choice([7, 8, 9], ROWS)]
    found = []
    for codec, nullable in product(CODECS, (False, True)):
        kinds = (pa.int64(), pa.string(), pa.int64())
        schema = pa.schema([pa.field(name, kind, nullable) for name, kind in zip("abc", kinds, strict=True)])
        table = pa.table([pa.array(column) for column in columns], schema=schema)
        pq.write_table(
            table, folder / "t", compression=codec, use_dictionary=["b", "c"],
            column_encoding={"a": "DELTA_BINARY_PACKED"}, max_rows_per_page=300,
        )  # fmt: skip
        raw, group = (folder / "t").read_bytes(), pq.read_metadata(folder / "t").row_group(0)
        for column in (group.column(number) for number in range(3)):
            begin = column.dictionary_page_offset or column.data_page_offset
            length = column.total_compressed_size
            found.append((raw[begin : begin + length], Chunk(0, length, CODECS[codec], nullable)))
    return found


def outcome(raw: bytes) -> str:
    """Every kernel over the same bytes; any index that is out of bounds raises."""
    data = np.frombuffer(raw, np.uint8)
    pages = pages_of(data, ROWS)
    assert len(dictionary_page(data)) in {0, 3}
    room, keys = np.empty(ROWS, np.int64), np.zeros(ROWS, np.int32)
    starts = [0, *(int(page[OFFSET]) for page in pages)]
    for start in starts:
        for behind in (start, start + 4, start + 10):
            numbers = deltas(data, behind, room)
            assert numbers == UNKNOWN or 0 < numbers <= ROWS
            codes = add_codes(data, behind, 3, keys)
            assert codes in {UNKNOWN, ROWS}
            keys[:] = 0
            search_texts(data, behind)
    if not len(pages):
        return "rejected"
    assert int(pages[:, VALUES].sum()) == ROWS
    return "told"


def search_texts(data: Bytes, at: int) -> None:
    """Search the texts that begin here, if any number of them fills the data."""
    needle = np.frombuffer(b"xy", np.uint8)
    for count in (1, 2, 7):
        begin, found = np.empty(count + 1, np.int64), np.zeros(count, np.bool_)
        if text_places(data, at, begin) != UNKNOWN:
            mark_texts(data, begin, needle, found)
            offsets = np.empty(count + 1, np.int32)
            copied = copy_texts(data, begin, np.arange(count), offsets)
            assert len(copied) == offsets[-1] == len(data) - at - 4 * count


def read_outcome(path: Path, raw: bytes, chunk: Chunk) -> str:
    """The readers over the same bytes: values that fit, or a `ValueError`."""
    path.write_bytes(raw)
    chunk = Chunk(0, len(raw), chunk.codec, chunk.has_levels)
    done = "refused"
    with suppress(ValueError):
        assert sum(len(numbers) for _, numbers in delta_pages(path, chunk, ROWS)) == ROWS
        done = "read"
    group, ends = ScaledGroup(ROWS, chunk, chunk), np.array([ROWS])
    with suppress(ValueError), LocalFile(SegmentRef("", "", len(raw), 0, 0, 0, 0), path) as file:
        assert len(group.times_of(file, ends - 20, ends)) == ROWS
    with suppress(ValueError):
        codes, keys = DictionaryChunk.read(path, chunk), np.zeros(ROWS, np.int32)
        with suppress(ValueError):
            plain_texts(codes.dictionary)
        with suppress(ValueError):
            assert 8 * len(plain_integers(codes.dictionary)) == len(codes.dictionary)
        codes.add_to(keys, 3)
        assert keys.min() >= 0
        assert keys.max() < 3
        done = "read"
    with suppress(ValueError):
        assert 4 <= behind_levels(np.frombuffer(raw, np.uint8)) <= len(raw)
    return done


def runs(rng: random.Random) -> None:
    """Runs, keys and places that are in range stay in range, whatever page they meet."""
    bounds = np.array(sorted(rng.sample(range(ROWS + 1), 2 * rng.randint(1, 20))))
    begin, end = bounds[::2].copy(), bounds[1::2].copy()
    sizes = end - begin
    to = np.cumsum(sizes) - sizes
    page = np.array([rng.randint(0, 99) for _ in range(rng.randint(0, ROWS))], np.int64)
    first = rng.randint(0, ROWS - len(page))
    times, values = np.zeros(sizes.sum(), np.int64), np.zeros(sizes.sum())
    place_times(page, first, begin, end, to, times)
    place_values(page, first, begin, end, to, begin, np.full(len(begin), 10.0), values)
    copy_runs(np.arange(ROWS), begin, end, to, times)
    keys, counts = (page % 4).astype(np.int32), np.zeros((4, rng.randint(1, 30)), np.int64)
    assert count_rows(page, keys, rng.randint(0, 60), rng.randint(40, 99), rng.randint(1, 9), counts) in {
        0, OUT_OF_RANGE
    }  # fmt: skip
    count_keys(keys, counts)
    add_up(keys.astype(np.int64), page, counts[:, 0].copy())
    cut_runs(np.arange(ROWS), begin, end, rng.randint(-9, ROWS), rng.randint(-9, ROWS + 9))
    assert begin.min() >= 0
    assert end.max() <= ROWS


def texts(rng: random.Random) -> bytes:
    """A few texts behind their lengths, one of which may be wrong."""
    each = [rng.randbytes(rng.randint(0, 9)).replace(b"\0", b"xy") for _ in range(rng.choice((1, 2, 7)))]
    raw = b"".join(len(one).to_bytes(4, "little") + one for one in each)
    return broken(rng, raw) if rng.random() < 0.5 else raw


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
        samples, path = chunks(Path(folder)), Path(folder) / "broken"
        assert outcome(samples[0][0]) == "told"
        for raw, chunk in samples:
            assert read_outcome(path, raw, chunk) == "read"
        for _ in range(int(sys.argv[1])):
            whole, chunk = rng.choice(samples)
            damaged = broken(rng, whole)
            seen[outcome(damaged)] += 1
            seen[read_outcome(path, damaged, chunk)] += 1
            seen[outcome(rng.randbytes(rng.randint(0, 80)))] += 1
            search_texts(np.frombuffer(texts(rng), np.uint8), rng.choice((0, 0, 0, 3)))
            seen[
                outcome(bytes(rng.choice((0x15, 0x2C, 0x80, 0xFF, 0x06, 0x18, 0x1C)) for _ in range(40)))
            ] += 1
            runs(rng)
    assert min(seen["told"], seen["rejected"], seen["read"], seen["refused"]) > 0, seen
    print(dict(seen))


if __name__ == "__main__":
    main()
