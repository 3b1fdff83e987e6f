"""Feeds the decoder broken bytes; run with NUMBA_BOUNDSCHECK=1, so that any over-read is an IndexError.

Started by `test_malformed.py` in a process of its own, because the check is fixed when a kernel is compiled.
"""

from __future__ import annotations

import random
import sys

import numpy as np

from lakerunner_assets.decode.errors import MalformedError
from resources.arrays import Bytes
from resources.kernel import scanner
from tests.support.decode.messages import sample
from tests.support.decoding import decode_logs


@scanner
def over_read(data: Bytes) -> int:
    return int(data[len(data)])


def outcome(data: bytes) -> str:
    try:
        decode_logs(data, object_id=1, first_position=0, arrival_ns=1)
    except MalformedError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"offset outside of the {len(data)} bytes: {error}") from error
        return "rejected"
    return "decoded"


def check_that_checking_is_on() -> None:
    try:
        over_read(np.zeros(3, np.uint8))
    except IndexError:
        return
    raise AssertionError("bounds checking is off: this run would prove nothing")


def main() -> None:
    check_that_checking_is_on()
    payload = sample(4).SerializeToString()
    first = len(payload) // 2  # both ResourceLogs have the same size
    for length in range(len(payload)):
        expected = "decoded" if length in (0, first) else "rejected"
        assert outcome(payload[:length]) == expected, f"truncated at {length}"
    rng = random.Random(7)
    seen = {"rejected": 0, "decoded": 0}
    for _ in range(int(sys.argv[1])):
        broken = bytearray(payload)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        seen[outcome(bytes(broken))] += 1
    assert min(seen.values()) > 0, seen
    for _ in range(int(sys.argv[1])):
        outcome(rng.randbytes(rng.randint(1, 60)))
    print(f"truncations {len(payload)}, flips {seen}")


if __name__ == "__main__":
    main()
