"""Broken JSON is rejected with a position in it, and never read past.

Run as a program it feeds broken bytes to both readers with NUMBA_BOUNDSCHECK=1, so that any over-read is an
IndexError; in a process of its own, because that is fixed when a kernel is compiled.
"""

from __future__ import annotations

import json
import random
import sys
from base64 import b64decode
from collections import Counter
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.json.lines import line_windows, scan_lines
from lakerunner_assets.decode.json.otlp import requests
from lakerunner_assets.decode.payload import payload_of
from resources.arrays import Bytes
from resources.kernel import scanner
from resources.lake.layout import Signal
from tests.support.decode.messages import sample
from tests.unit.conftest import Run

LETTERS = b'{}[]",:0123456789.eE+-\\untrfals x/\x00\xff\n'
METRICS = (
    b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"h\\u00e9","histogram":{"aggregationTemporality":'
    b'"AGGREGATION_TEMPORALITY_DELTA","dataPoints":[{"count":"3","sum":1.2345678901234567,"bucketCounts":["1",2],'
    b'"explicitBounds":[0.5,"NaN",-1e300],"exemplars":[{"asInt":"-5","traceId":"0af7651916cd43dd8448eb211c80319c"}]'
    b"}]}}]}]}]}"
)
LINES = (
    b'{"a":1,"b":{"c":"x\\ty\\ud83d\\ude00","d":[1,-2.5,{"e":null,"f":"\\u00e9"},[true]]},"g":1.2345678901234567}\n'
    b'{"a":"z","b":{"c":false}}\n{"h":99999999999999999999,"b":{"\\u0064":3}}'
)


def logs_text() -> bytes:
    document = json_format.MessageToDict(sample(2))

    def hexed(node: Any) -> Any:
        if isinstance(node, list):
            return [hexed(inner) for inner in node]
        if not isinstance(node, dict):
            return node
        return {k: b64decode(v).hex() if k in {"traceId", "spanId"} else hexed(v) for k, v in node.items()}

    return json.dumps(hexed(document)).encode()


def check_offset(error: MalformedError, data: bytes) -> None:
    if not 0 <= error.offset <= len(data):
        raise AssertionError(f"offset outside of the {len(data)} bytes: {error}") from error


def is_text(data: bytes) -> bool:
    """Whether it is UTF-8: the protobuf runtime refuses strings that are not, our decoder repairs them."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_otlp(data: bytes, signal: Signal = Signal.LOGS, slice_bytes: int = 1 << 20) -> str:
    """What came of it; whatever is accepted must be protobuf."""
    try:
        wire = b"".join(part.data for part in requests(payload_of(data), signal, slice_bytes, Counter()))
    except MalformedError as error:
        check_offset(error, data)
        return "rejected"
    if signal is Signal.LOGS and is_text(data):
        ExportLogsServiceRequest.FromString(wire)
    return "decoded"


def read_lines(data: bytes, slice_bytes: int = 1 << 20) -> str:
    rejected = 0
    try:
        for part in line_windows(payload_of(data), slice_bytes):
            raw = scan_lines(part.data, part.base)
            assert raw.lines == raw.count + raw.rejected
            rejected += raw.rejected
    except MalformedError as error:
        check_offset(error, data)
        return "failed"
    return "rejected" if rejected else "decoded"


def read_metrics(data: bytes) -> str:
    return read_otlp(data, Signal.METRICS)


def flipped(data: bytes, rng: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        broken[rng.randrange(len(broken))] = rng.choice(LETTERS) if rng.random() < 0.8 else rng.randrange(256)
    return bytes(broken)


def random_json(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON, with names that OTLP knows in places where it does not expect them."""
    names = [
        "resourceLogs",
        "scopeLogs",
        "logRecords",
        "body",
        "attributes",
        "key",
        "value",
        "intValue",
        "flags",
    ]
    kind = rng.randrange(8 if depth < 5 else 5)
    if kind > 5:
        return {rng.choice(names): random_json(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind == 5:
        return [random_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    return [None, True, rng.getrandbits(70), rng.uniform(-1e9, 1e9), rng.choice(["", "é\n", "12", "x" * 40])][
        kind
    ]


def fuzz(rounds: int) -> dict[str, Counter[str]]:
    rng = random.Random(7)
    seen: dict[str, Counter[str]] = {}
    for name, data, read in (
        ("logs", logs_text(), read_otlp),
        ("metrics", METRICS, read_metrics),
        ("lines", LINES, read_lines),
        ("list", b"[" + LINES.replace(b"\n", b",") + b"]", read_lines),
    ):
        found = seen[name] = Counter()
        assert read(data) == "decoded"
        for length in range(1, len(data)):
            found["cut " + read(data[:length])] += 1
        for _ in range(rounds):
            found[read(flipped(data, rng))] += 1
        for _ in range(rounds // 4):
            read(bytes(rng.choice(LETTERS) for _ in range(rng.randint(1, 40))))
    for _ in range(rounds):
        text = json.dumps({"resourceLogs": random_json(rng)}).encode()
        read_otlp(text, slice_bytes=rng.choice([1, 16, 1 << 20]))
        assert read_lines(text, rng.choice([1, 16, 1 << 20])) == "decoded"
    return seen


@scanner
def over_read(data: Bytes) -> int:
    return int(data[len(data)])


def check_that_checking_is_on() -> None:
    try:
        over_read(np.zeros(3, np.uint8))
    except IndexError:
        return
    raise AssertionError("bounds checking is off: this run would prove nothing")


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    run_checked("tests.unit.lakerunner_assets.decode.test_json_hostile", "800")


def test_broken_bytes_are_rejected_with_an_offset() -> None:
    seen = fuzz(600)
    for name in ("logs", "metrics", "list"):
        assert seen[name]["cut decoded"] == 0, (name, seen[name])
    for found in seen.values():
        assert found["decoded"] > 0
        assert found["rejected"] + found["failed"] > 0


def test_every_truncation_of_lines_keeps_the_whole_ones() -> None:
    for length in range(len(LINES)):
        raw = scan_lines(LINES[:length], 0)
        lines = LINES[:length].split(b"\n")
        good = LINES.split(b"\n")
        assert raw.count == sum(line in good for line in lines), length
        assert raw.rejected == sum(bool(line) and line not in good for line in lines), length


if __name__ == "__main__":
    check_that_checking_is_on()
    print(fuzz(int(sys.argv[1])))
