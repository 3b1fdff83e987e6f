"""Feeds the metrics decoder broken bytes; with NUMBA_BOUNDSCHECK=1 any over-read is an IndexError.

Started by `test_metrics_malformed.py` in a process of its own, because the check is fixed when a kernel is
compiled.
"""

from __future__ import annotations

import random
import sys

from lakerunner_assets.decode.dispatch import Place
from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.otlp.metrics import decode_metrics
from resources.lake.options import DecodeOptions
from tests.support.decode.hostile_bytes import check_that_checking_is_on
from tests.support.decode.metric_messages import field, sample


def outcome(data: bytes) -> str:
    try:
        decode_metrics(data, Place(1, 0, 1), DecodeOptions())
    except MalformedError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"offset outside of the {len(data)} bytes: {error}") from error
        return "rejected"
    return "decoded"


def payload() -> bytes:
    """All kinds of points, packed and unpacked numbers, attributes with other fields between them."""
    request = sample(1)
    scope = request.resource_metrics[0].scope_metrics[0]
    gap = scope.metrics[0].gauge.data_points[0].SerializeToString()
    unpacked = b"\x31" + bytes(8) + b"\x39" + bytes(8)
    metric = b"\x0a\x01m" + field(5, field(1, gap + gap)) + field(9, field(1, unpacked))
    return request.SerializeToString() + field(1, field(2, field(2, metric)))


def main() -> None:
    check_that_checking_is_on()
    data = payload()
    whole = {0}
    first = len(sample(1).SerializeToString())
    whole |= {first // 2, first}  # between the ResourceMetrics, of which the first two have the same size
    for length in range(len(data)):
        expected = "decoded" if length in whole else "rejected"
        assert outcome(data[:length]) == expected, f"truncated at {length}"
    rng = random.Random(7)
    seen = {"rejected": 0, "decoded": 0}
    for _ in range(int(sys.argv[1])):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        seen[outcome(bytes(broken))] += 1
    assert min(seen.values()) > 0, seen
    for _ in range(int(sys.argv[1])):
        point = rng.randbytes(rng.randint(1, 40))
        outcome(field(1, field(2, field(2, field(rng.choice([5, 7, 9, 10, 11]), field(1, point))))))
    print(f"truncations {len(data)}, flips {seen}")


if __name__ == "__main__":
    main()
