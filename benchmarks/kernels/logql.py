"""Kernels of LogQL against libraries: `python -m benchmarks.kernels.logql`.

Each line is the best of several rounds on one core, in CPU time per value: a row, a slice or a line. A
library that does less than the kernel (msgspec parses and makes no columns, RE2 finds and converts nothing)
is named all the same: it is the nearest thing.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.kernels import fields, samples
from lakerunner_query.logql.kernels.addresses import holding_rows
from lakerunner_query.logql.kernels.json_text import unescaped_spans
from lakerunner_query.logql.kernels.strings import containing_rows, text_of
from lakerunner_query.logql.lang.ast import Stage
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.pipeline import Demand, apply
from lakerunner_query.windows.functions import Windows
from resources.arrays import Bytes, Int32s, Int64s

ROWS = 50_000
ROUNDS = 5
EVERYTHING = Demand(None)
Case = tuple[str, Callable[[], object], Callable[[], object]]
"""Name, kernel, library."""


def cases() -> Iterator[Case]:
    chance = np.random.default_rng(7)
    yield from _codes(chance)
    yield from _slices(chance)
    yield from _searches()
    yield from _parsers()
    yield from _samples(chance)


def _codes(chance: np.random.Generator) -> Iterator[Case]:
    codes = chance.integers(-1, 40, ROWS).astype(np.int32)
    yield "by_code", lambda: fields.by_code(codes, 40), lambda: sort_by_code(codes, 40)


def sort_by_code(codes: Int32s, count: int) -> object:
    order = np.argsort(codes, kind="stable")
    begins = np.searchsorted(codes[order], np.arange(count + 1))
    return order[begins[0] :], begins - begins[0]


def _slices(chance: np.random.Generator) -> Iterator[Case]:
    text = text_of(pa.array([f"value-{one}" for one in chance.integers(0, 20_000, ROWS).tolist()]))
    starts, lengths = text.offsets[:-1].astype(np.int64), np.diff(text.offsets)
    order = chance.permutation(ROWS)
    yield (
        "gather_spans",
        lambda: fields.gather_spans(text.data, starts[order], lengths[order]),
        lambda: gather_with_numpy(text.data, starts[order], lengths[order]),
    )
    quoted = pa.array([f'a\\n\\"b\\u00e9\\" {one}' for one in range(ROWS)])
    raw = text_of(quoted)
    spans = raw.offsets[:-1].astype(np.int64), np.diff(raw.offsets), np.ones(ROWS, np.bool_)
    listed = [f'"{one}"'.encode() for one in quoted.to_pylist()]
    decoder = msgspec.json.Decoder(str)
    yield (
        "unescaped_spans",
        lambda: unescaped_spans(raw.data, *spans, True),
        lambda: pa.array([decoder.decode(one) for one in listed]),
    )


def gather_with_numpy(data: Bytes, starts: Int64s, lengths: Int32s) -> object:
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return data[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets


def plain_lines() -> pa.StringArray:
    return pa.array(
        [
            f"2026-01-0{1 + one % 9} host-{one % 50} GET /api/v1/items/{one} from 10.0.{one % 200}.7 "
            f"took {one % 900}ms" + (" error: connection refused" if one % 20 == 0 else "")
            for one in range(ROWS)
        ]
    )


def _searches() -> Iterator[Case]:
    lines = plain_lines()
    text = text_of(lines)
    for needle in ("connection refused", "e", "nothing like it"):
        wanted = np.frombuffer(needle.encode(), np.uint8)
        yield (
            f"containing_rows {needle!r}",
            lambda wanted=wanted: containing_rows(text.data, text.offsets, wanted),
            lambda needle=needle: pc.match_substring(lines, needle).to_numpy(False),
        )
    yield (
        "matching_rows, |> pattern",
        _pipeline(lines, "|> `<_> GET <_> took <_>`"),
        lambda: pc.match_substring_regex(lines, r"(?s)\A.+ GET .+? took .+\z").to_numpy(False),
    )
    low, high = (
        np.array([0, int(ipaddress.ip_address(one))], np.uint64) for one in ("10.0.3.0", "10.0.4.255")
    )
    address = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
    bounds = ipaddress.ip_address("10.0.3.0"), ipaddress.ip_address("10.0.4.255")
    yield (
        "holding_rows, addresses",
        lambda: holding_rows(text.data, text.offsets, False, low, high),
        lambda: [
            any(bounds[0] <= ipaddress.ip_address(one) <= bounds[1] for one in address.findall(line))
            for line in lines.to_pylist()
        ],
    )


def _pipeline(lines: pa.StringArray, query: str) -> Callable[[], object]:
    stages: tuple[Stage, ...] = parse('{a="b"} ' + query).stages
    frame = LogFrame(np.arange(len(lines), dtype=np.int64), lines)
    return lambda: apply(frame, stages, EVERYTHING, 0)


def _parsers() -> Iterator[Case]:
    lines = plain_lines()
    yield (
        "capture_rows, | pattern",
        _pipeline(lines, "| pattern `<day> <host> GET <path> from <_>`"),
        lambda: [
            one.dictionary_encode()
            for one in pc.extract_regex(
                lines, r"(?s)^(?P<day>.*?) (?P<host>.*?) GET (?P<path>.*?) from "
            ).flatten()
        ],
    )
    rows = [
        {
            "level": ("info", "error")[one % 7 == 0],
            "status": 200 + one % 4,
            "request": {"path": f"/p/{one % 90}"},
        }
        for one in range(ROWS)
    ]
    documents = pa.array([msgspec.json.encode(row).decode() for row in rows])
    yield "scan_rows, | json", _pipeline(documents, "| json"), lambda: decode_fields(documents)
    yield (
        "scan_paths, | json path",
        _pipeline(documents, '| json path="request.path"'),
        lambda: decode_path(documents),
    )
    pairs = pa.array(
        [
            f'level={row["level"]} status={row["status"]} msg="took {number} ms"'
            for number, row in enumerate(rows)
        ]
    )
    yield "scan_pairs, | logfmt", _pipeline(pairs, "| logfmt"), lambda: split_pairs(pairs)


def decode_fields(documents: pa.StringArray) -> object:
    decoder = msgspec.json.Decoder()
    found: dict[str, list[object]] = {"level": [], "status": [], "request_path": []}
    for line in documents.to_pylist():
        row = decoder.decode(line)
        found["level"].append(row["level"])
        found["status"].append(str(row["status"]))
        found["request_path"].append(row["request"]["path"])
    return [pa.array(values).dictionary_encode() for values in found.values()]


def decode_path(documents: pa.StringArray) -> object:
    decoder = msgspec.json.Decoder()
    return pa.array(
        [decoder.decode(line)["request"]["path"] for line in documents.to_pylist()]
    ).dictionary_encode()


_PAIR = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))')


def split_pairs(lines: pa.StringArray) -> object:
    found: dict[str, list[str]] = {}
    for line in lines.to_pylist():
        for name, quoted, bare in _PAIR.findall(line):
            found.setdefault(name, []).append(quoted or bare)
    return [pa.array(values).dictionary_encode() for values in found.values()]


def _samples(chance: np.random.Generator) -> Iterator[Case]:
    series = chance.integers(0, 300, ROWS).astype(np.int64)
    times = np.sort(chance.integers(0, 3600, ROWS)).astype(np.int64)
    ordered = np.sort(series)
    lines, totals = np.zeros((300, 61), np.int64), np.zeros((300, 61), np.int64)
    windows, none = Windows(60, 60, 60, 300), np.zeros(0, np.int64)
    yield (
        "order_by_series",
        lambda: samples.order_by_series(series, 300),
        lambda: np.argsort(series, kind="stable"),
    )
    yield (
        "is_ascending",
        lambda: samples.is_ascending(ordered, np.arange(ROWS)),
        lambda: bool(((np.diff(ordered) != 0) | (np.diff(np.arange(ROWS)) > 0)).all()),
    )
    yield (
        "mark_lines",
        lambda: samples.mark_lines(series, times, none, windows, lines, totals),
        lambda: mark_with_numpy(series, times, windows, lines),
    )


def mark_with_numpy(
    series: Int64s,
    times: Int64s,
    windows: Windows,
    lines: Int64s,
) -> None:
    before = windows.first_end - times
    enters = np.maximum(-(before // windows.step), 0)
    leaves = np.minimum(-((before - windows.range) // windows.step), windows.steps)
    seen = enters < leaves
    np.add.at(lines, (series[seen], enters[seen]), 1)
    np.subtract.at(lines, (series[seen], leaves[seen]), 1)


def best(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest round, the first (compiling) one apart."""
    work()
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        rounds.append(time.process_time() - start)
    return min(rounds)


def main() -> None:
    pa.set_cpu_count(1)
    print(f"{'kernel':40} {'ns/value':>9} {'library':>9} {'ratio':>6}")
    for name, kernel, library in cases():
        ours, theirs = best(kernel), best(library)
        print(f"{name:40} {ours / ROWS * 1e9:9.1f} {theirs / ROWS * 1e9:9.1f} {theirs / ours:6.2f}")


if __name__ == "__main__":
    main()
