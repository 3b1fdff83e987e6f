"""Kernels of the query worker against libraries: `python -m benchmarks.kernels.worker`.

Each line is the best of five rounds on one core, in processor time.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_query.worker.logs.labels import hex_texts
from lakerunner_query.worker.parquet.dictionary_kernels import add_codes, dictionary_page
from lakerunner_query.worker.parquet.page_kernels import OFFSET, STORED_BYTES, deltas, pages_of
from lakerunner_query.worker.parquet.run_kernels import (
    add_up,
    copy_runs,
    count_keys,
    count_rows,
    cut_runs,
    place_times,
    place_values,
)
from lakerunner_query.worker.parquet.text_kernels import mark_texts, text_places
from lakerunner_query.worker.shared.render_kernels import whole_blocks
from lakerunner_query.worker.shared.render_samples import time_texts
from resources.arrays import Int64s

ROWS, SERIES, ROUNDS = 131_072, 1024, 5
SECOND = 10**9
Case = tuple[str, Callable[[], object], Callable[[], object]]
"""Name, ours, library."""


def expanded(begin: Int64s, sizes: Int64s) -> Int64s:
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1])) + np.repeat(begin - (ends - sizes), sizes)


def page_cases() -> Iterator[Case]:
    """Pages of a row group, uncompressed, against Arrow with the footer at hand."""
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.integers(0, 20_000, ROWS))
    words = rng.choice([f"word {number}" for number in range(40)], ROWS)
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"times": times, "words": words}), sink, compression="none", use_dictionary=["words"],
        column_encoding={"times": "DELTA_BINARY_PACKED"},
    )  # fmt: skip
    whole = pa.py_buffer(sink.getvalue())
    metadata = pq.read_metadata(pa.BufferReader(whole))
    group = metadata.row_group(0)

    def chunk(number: int) -> np.ndarray:
        column = group.column(number)
        begin = column.dictionary_page_offset or column.data_page_offset
        return np.frombuffer(whole, np.uint8)[begin : begin + column.total_compressed_size]

    def arrow(name: str, *, as_codes: bool) -> np.ndarray:
        file = pq.ParquetFile(
            pa.BufferReader(whole), metadata=metadata, read_dictionary=[name] if as_codes else None
        )
        column = file.read_row_group(0, [name], use_threads=False).column(0).chunk(0)
        return (column.indices if as_codes else column).to_numpy()

    raw, room = chunk(0), np.empty(ROWS, np.int64)
    codes = chunk(1)
    behind = codes[int(dictionary_page(codes)[1]) :]

    def decode_deltas() -> None:
        at = 0
        for page in pages_of(raw, ROWS):
            data = raw[page[OFFSET] : page[OFFSET] + page[STORED_BYTES]]
            at += deltas(data, _behind_levels(data), room[at:])

    def decode_codes() -> None:
        keys, at = np.zeros(ROWS, np.int32), 0
        for page in pages_of(behind, ROWS):
            data = behind[page[OFFSET] : page[OFFSET] + page[STORED_BYTES]]
            at += add_codes(data, _behind_levels(data), 40, keys[at : at + page[3]])

    def arrow_codes() -> None:
        keys = np.zeros(ROWS, np.int32)
        keys *= 40
        keys += arrow("words", as_codes=True)

    yield "page_kernels.deltas", decode_deltas, lambda: arrow("times", as_codes=False)
    yield "dictionary_kernels.add_codes", decode_codes, arrow_codes


def _behind_levels(data: np.ndarray) -> int:
    return 4 + int.from_bytes(data[:4].tobytes(), "little")


def run_cases() -> Iterator[Case]:
    """Runs of a row group of metrics: an eighth of its series."""
    rng = np.random.default_rng(2)
    each = ROWS // SERIES
    times = np.tile(np.arange(each) * 10_000, SERIES)
    begin = np.sort(rng.choice(SERIES, SERIES // 8, replace=False)) * each
    end, sizes = begin + each, np.full(len(begin), each)
    to = np.cumsum(sizes) - sizes
    target, values = np.empty(int(sizes.sum()), np.int64), np.empty(int(sizes.sum()))
    base, power = np.arange(len(begin)), np.full(len(begin), 100.0)

    def take() -> None:
        target[expanded(to, sizes)] = times[expanded(begin, sizes)]

    def take_times() -> None:
        take()
        int((np.diff(target) <= 0).sum())

    def take_values() -> None:
        scaled = times[expanded(begin, sizes)] + np.repeat(base, sizes)
        values[expanded(to, sizes)] = scaled / np.repeat(power, sizes)

    def cut() -> None:
        cut_runs(times, begin.copy(), end.copy(), 200_000, 900_000)

    def search() -> None:
        for low, high in zip(begin.tolist(), end.tolist(), strict=True):
            np.searchsorted(times[low:high], [200_000, 900_000], "right")

    yield "run_kernels.copy_runs", lambda: copy_runs(times, begin, end, to, target), take
    yield "run_kernels.place_times", lambda: place_times(times, 0, begin, end, to, target), take_times
    place = lambda: place_values(times, 0, begin, end, to, base, power, values)  # noqa: E731
    yield "run_kernels.place_values", place, take_values
    yield "run_kernels.cut_runs", cut, search


def count_cases() -> Iterator[Case]:
    """Lines of a row group of logs, counted by 40 keys, and 60 buckets."""
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 40, ROWS).astype(np.int32)
    times = np.sort(rng.integers(0, 60 * SECOND, (20, ROWS // 20)), axis=1).ravel()
    rows = keys[: len(times)]
    one, many = np.zeros((40, 1), np.int64), np.zeros((40, 60), np.int64)
    places, numbers, sums = rng.integers(0, 5000, ROWS), rng.integers(1, 100, ROWS), np.zeros(5000, np.int64)

    def bincount() -> None:
        inside = (times >= 0) & (times < 60 * SECOND)
        np.bincount(rows[inside] * 60 + times[inside] // SECOND, minlength=2400)

    yield "run_kernels.count_keys", lambda: count_keys(keys, one), lambda: np.bincount(keys, minlength=40)
    yield "run_kernels.count_rows", lambda: count_rows(times, rows, 0, 60 * SECOND, SECOND, many), bincount
    yield (
        "run_kernels.add_up",
        lambda: add_up(places, numbers, sums),
        lambda: np.add.at(sums, places, numbers),
    )


def search_cases() -> Iterator[Case]:
    """A word in few lines of a page, against Arrow over lines that it has already read."""
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 1 << 40, 11_000).tolist()
    lines = [f"GET /api/v1/users/{number} completed status=200 id={number:016x}" for number in numbers]
    raw = b"".join(len(line).to_bytes(4, "little") + line.encode() for line in lines)
    page, needle = np.frombuffer(raw, np.uint8), np.frombuffer(b"users/77", np.uint8)
    begin, texts = np.empty(len(lines) + 1, np.int64), pa.array(lines)

    def search() -> None:
        found = np.zeros(len(lines), np.bool_)
        text_places(page, 0, begin)
        mark_texts(page, begin, needle, found)

    yield "text_kernels.mark_texts", search, lambda: pc.match_substring(texts, "users/77")


def text_cases() -> Iterator[Case]:
    """Counts of 1000 series as samples, and ids in hexadecimal."""
    values = np.random.default_rng(4).integers(0, 10**6, (1000, 60)).astype(np.float64)
    present, times = np.ones(values.shape, np.bool_), time_texts(np.arange(60) * 60_000 + 1_735_689_600_000)
    ids = pa.array([number.to_bytes(16, "big") for number in range(1, 20_001)], pa.binary(16))
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)

    def join_texts() -> None:
        rows, steps = np.nonzero(present)
        numbers = pa.array(values[rows, steps].astype(np.int64)).cast(pa.string())
        texts = pc.binary_join_element_wise("[", times.take(pa.array(steps)), ',"', numbers, '"]', "")
        offsets = pa.array(np.arange(1001) * 60, pa.int32())
        [text.encode() for text in pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",").to_pylist()]

    def look_up() -> None:
        raw = np.frombuffer(ids.buffers()[1], np.uint8).reshape(len(ids), 16)
        letters[np.stack((raw >> 4, raw & 15), 2)].tobytes()

    yield "render_kernels.whole_blocks", lambda: whole_blocks(values, present, times), join_texts
    yield "labels.hex_texts (library: a table of digits)", lambda: hex_texts(ids), look_up


def best(act: Callable[[], object]) -> float:
    """Seconds of the processor, the best of the rounds; the first call compiles."""
    act()
    once = time.process_time()
    act()
    repeats = max(1, int(0.02 / max(1e-6, time.process_time() - once)))
    spans = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(repeats):
            act()
        spans.append((time.process_time() - begin) / repeats)
    return min(spans)


def main() -> None:
    for cases in (page_cases, run_cases, count_cases, search_cases, text_cases):
        for name, ours, library in cases():
            mine, theirs = best(ours), best(library)
            print(f"{name:<48} {mine * 1e6:9.0f} us {theirs * 1e6:9.0f} us  {theirs / mine:5.1f}x")


if __name__ == "__main__":
    main()
