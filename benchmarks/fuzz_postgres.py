"""Sends mutated messages to the PostgreSQL door: nothing may crash, hang, or stay behind.

.venv/bin/python -m benchmarks.fuzz_postgres --messages 20000 --seed 1
"""

from __future__ import annotations

import argparse
import itertools
import logging
import tempfile
import time
from pathlib import Path

from tests.support.query.postgres_door import RunningDoor
from tests.support.query.postgres_wire import sessions


class _Defects(logging.Handler):
    """Counts failures that nobody foresaw."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.getMessage()}: {record.exc_info[1] if record.exc_info else ''}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    defects = _Defects()
    logging.getLogger("lakerunner_query").addHandler(defects)
    with RunningDoor(Path(tempfile.mkdtemp()), rows=1000) as door:
        began, total = time.process_time(), 0
        counts = itertools.accumulate(sessions(options.seed, door.port))
        total = next(count for count in counts if count >= options.messages)
        idle = door.eventually(lambda: door.door.sessions == 0 and door.lakeql.open_answers == 0)
        print(f"{total} messages, {time.process_time() - began:.1f} CPU s, nothing left behind: {idle}")
    for text in sorted(set(defects.seen)):
        print(text[:300])
    return 0 if idle and not defects.seen else 1


if __name__ == "__main__":
    raise SystemExit(main())
