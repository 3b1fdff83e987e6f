"""Measures how fast rows leave as PostgreSQL's messages: encoded by column, and one call per value.

.venv/bin/python -m benchmarks.postgres_rows
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lakerunner_query.api.postgres.values import encode_rows, encoder

ROWS, CHUNK = 1_000_000, 16_384


def table() -> pa.Table:
    rng = np.random.default_rng(1)
    times = rng.integers(1_700_000_000_000_000, 1_800_000_000_000_000, ROWS)
    return pa.table(
        {
            "timestamp": pa.array(times).cast(pa.timestamp("us")),
            "message": [f"GET /x/{number} 200 some text here" for number in range(ROWS)],
            "value": rng.random(ROWS) * 1000,
        }
    )


def by_column(rows: pa.Table, form: int) -> int:
    encoders = [encoder(one.type, form) for one in rows.schema]
    return sum(len(encode_rows(batch.columns, encoders)) for batch in rows.to_batches(CHUNK))


def by_value(rows: pa.Table, _: int) -> int:
    total = 0
    for batch in rows.slice(0, ROWS // 10).to_batches(CHUNK):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            values = [str(one).encode() for one in row]
            body = b"".join(struct.pack(">i", len(one)) + one for one in values)
            total += len(struct.pack(">cih", b"D", len(body) + 6, len(values)) + body)
    return total


def cpu_seconds(work: Callable[[pa.Table, int], int], rows: pa.Table, form: int) -> float:
    found = []
    for _ in range(3):
        began = time.process_time()
        work(rows, form)
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    rows = table()
    for name, form in (("text", 0), ("binary", 1)):
        print(
            f"by column, {name}: {ROWS / cpu_seconds(by_column, rows, form) / 1e6:.2f} M rows per CPU second"
        )
    print(f"by value, text: {ROWS / 10 / cpu_seconds(by_value, rows, 0) / 1e6:.2f} M rows per CPU second")


if __name__ == "__main__":
    main()
