"""Sends spoiled messages to the Flight door: nothing may crash, hang, or stay behind.

.venv/bin/python -m benchmarks.fuzz_flight --calls 20000 --seed 1
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from tests.support.query.flight_door import DoorProcess
from tests.support.query.flight_wire import Sessions


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with DoorProcess() as door:
        began = time.monotonic()
        for found in Sessions(options.seed, door.port):
            if found.calls >= options.calls or door.end is not None:
                break
        is_idle, failures = (door.is_idle(), door.failures()) if door.end is None else (False, [])
    print(f"{found.calls} calls in {time.monotonic() - began:.0f} s, nothing left behind: {is_idle}")
    print(", ".join(f"{count} {code}" for code, count in found.codes.most_common()))
    for text, count in Counter([*found.defects, *failures]).most_common(20):
        print(f"{count} x {text}")
    return 0 if is_idle and door.end == 0 and not found.defects and not failures else 1


if __name__ == "__main__":
    raise SystemExit(main())
