"""Feeds the remote write decoder broken bytes; run with NUMBA_BOUNDSCHECK=1 (see hostile_bytes.py)."""

from __future__ import annotations

import random
import sys

from google.protobuf.message import DecodeError

from lakerunner_assets.decode.errors import MalformedError
from resources.proto.prometheus import WriteRequest
from tests.support.decode.hostile_bytes import check_that_checking_is_on
from tests.support.decode.remote_write_cases import (
    MARK,
    START_MS,
    add_histogram,
    add_series,
    decode,
    double,
    write_object,
)


def sample() -> bytes:
    """A request that uses every field."""
    request = WriteRequest()
    request.metadata.add(type=1, metric_family_name="rpc", help="about", unit="s")
    for number in range(3):
        labels = {"__name__": "rpc_total", "job": f"j{number}", "\u00e9": '"'}
        series = add_series(request, labels, (1.5, START_MS), (double(0x7FF0000000000002), START_MS + 1))
        exemplar = series.exemplars.add(value=0.5, timestamp=START_MS)
        exemplar.labels.add(name="trace_id", value="0af7651916cd43dd8448eb211c80319c")
        add_histogram(series, {
            "count_int": 12, "sum": 2.5, "schema": 3, "zero_threshold": 1e-128, "zero_count_int": 1,
            "positive_spans": [(2, 2), (1, 1)], "positive_deltas": [3, -1, 2],
            "negative_spans": [(-3, 1)], "negative_deltas": [4], "reset_hint": 2, "timestamp": START_MS,
        })  # fmt: skip
        add_histogram(series, {
            "count_float": 2.5, "schema": -53, "custom_values": [0.1, 0.5], "zero_count_float": 0.25,
            "positive_spans": [(1, 2)], "positive_counts": [0.5, 2.0], "timestamp": START_MS,
        })  # fmt: skip
    return write_object(request)


def outcome(data: bytes, slice_bytes: int) -> str:
    try:
        decode(data, slice_bytes=slice_bytes)
    except MalformedError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"offset outside of the {len(data)} bytes: {error}") from error
        return "rejected"
    return "decoded"


def protobuf_reads(data: bytes) -> bool:
    try:
        WriteRequest.FromString(data)
    except (DecodeError, UnicodeDecodeError):
        return False
    return True


def main() -> None:
    check_that_checking_is_on()
    payload = sample()
    for length in range(len(payload)):
        expected = "decoded" if protobuf_reads(payload[:length]) else "rejected"
        if length:
            assert outcome(payload[:length], 1 << 20) == expected, f"truncated at {length}"
    rng = random.Random(7)
    seen = {"rejected": 0, "decoded": 0}
    for _ in range(int(sys.argv[1])):
        broken = bytearray(payload)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        found = outcome(bytes(broken), rng.choice([64, 1 << 20]))
        seen[found] += 1
        if protobuf_reads(bytes(broken)):
            assert found == "decoded", bytes(broken)
    assert min(seen.values()) > 0, seen
    for _ in range(int(sys.argv[1])):
        outcome(MARK + rng.randbytes(rng.randint(1, 60)), 1 << 20)
    print(f"truncations {len(payload)}, flips {seen}")


if __name__ == "__main__":
    main()
