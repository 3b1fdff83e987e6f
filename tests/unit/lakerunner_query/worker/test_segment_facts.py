"""Stream tables that rotted on disk: refused, whatever the damage; the process lives on."""

from __future__ import annotations

import random

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.logs.segment_opener import stream_table
from lakerunner_query.worker.shared.segment_file import SegmentUnreadableError
from resources.lake.streams import Stream, encode

SEGMENT = SegmentRef("id", "db/acme/x.parquet", 1, 0, 1, 0, 10)


def test_no_damage_gets_past_the_check() -> None:
    """Unchecked offsets ended the process with a segmentation fault within a few dozen of these."""
    labels = (("level", "info"), ("service_name", "web"))
    raw = encode(Stream(i, (("a", f"b{i}"), *labels), 5, 1, 9) for i in range(50))
    dice = random.Random(1)
    refused = 0
    for _round in range(1000):
        damaged = bytearray(raw)
        for _byte in range(dice.choice((1, 2, 8))):
            damaged[dice.randrange(len(raw))] = dice.randrange(256)
        try:
            stream_table(
                SEGMENT, bytes(damaged[: dice.choice((len(raw), len(raw), dice.randrange(len(raw))))])
            )
        except SegmentUnreadableError:
            refused += 1
    assert refused > 800
