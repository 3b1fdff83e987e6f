"""Seeded rows of a day, columnar: 60 services, five levels, six templates, a trace and a request id each.

    10:00:00.000  service-000  info   GET /api/v1/users/81 completed status=200 duration=7.1ms request_id=…
    10:00:00.009  service-003  error  Timeout waiting for upstream 17 attempt=404 after 80.2ms corr=…

They become segments, JSON lines and push requests alike; a part is what one segment holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

START_NS = 1_768_392_000_000_000_000
"""A whole hour; rows lie behind it, since everything is cut left-open."""
DAY_NS = 24 * 3_600_000_000_000
SERVICES, HOSTS = 60, 300
LEVELS = ("info", "debug", "warn", "error", "fatal")
SEVERITIES = (9, 5, 13, 17, 21)
TEMPLATES = (
    "GET /api/v1/users/{} completed status={} duration={}ms request_id={}",
    "cache miss for key user:{} shard={} took={}ms token={}",
    "connection to db-{} pool={} acquired in {}ms lease={}",
    "payment {} declined code={} latency={}ms ref={}",
    "kafka partition {} offset lag={} poll={}ms group={}",
    "Timeout waiting for upstream {} attempt={} after {}ms corr={}",
)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_PIECES = [template.split("{}") for template in TEMPLATES]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows in order of time; levels and services are codes."""

    tsns: np.ndarray
    service: np.ndarray
    level: np.ndarray
    host: np.ndarray
    message: pa.StringArray
    trace: np.ndarray
    """(rows, 16) bytes."""

    @property
    def trace_ids(self) -> pa.StringArray:
        return _texts(_HEX[np.stack((self.trace >> 4, self.trace & 15), 2).reshape(len(self.trace), 32)])


def parts(rows: int, segments: int, seed: int = 1) -> Iterator[Part]:
    """A day in so many stretches of equal length."""
    for number in range(segments):
        first, last = rows * number // segments, rows * (number + 1) // segments
        yield _part(np.random.default_rng([seed, number]), first, last, rows)


def service_name(code: int) -> str:
    return f"service-{code:03d}"


def host_name(code: int) -> str:
    return f"host-{code}"


def _part(rng: np.random.Generator, first: int, last: int, rows: int) -> Part:
    count = last - first
    weight = 1 / np.arange(1, SERVICES + 1) ** 1.1
    template = rng.choice(len(TEMPLATES), count, p=(0.5, 0.2, 0.12, 0.05, 0.1, 0.03))
    numbers = pa.array(rng.integers(0, 1_000_000, count)).cast(pa.string())
    codes = pa.array(rng.choice([200, 404, 500], count, p=(0.9, 0.07, 0.03))).cast(pa.string())
    times = pa.array(np.round(rng.exponential(80, count), 2)).cast(pa.string())
    ids = _texts(_HEX[rng.integers(0, 16, (count, 16), dtype=np.uint8)])
    literal = [pa.array([piece[k] for piece in _PIECES]).take(pa.array(template)) for k in range(5)]
    message = pc.binary_join_element_wise(
        literal[0], numbers, literal[1], codes, literal[2], times, literal[3], ids, literal[4], ""
    )
    return Part(
        START_NS + 1 + np.arange(first, last, dtype=np.int64) * (DAY_NS // rows),
        rng.choice(SERVICES, count, p=weight / weight.sum()).astype(np.int32),
        rng.choice(len(LEVELS), count, p=(0.8, 0.1, 0.06, 0.039, 0.001)).astype(np.int32),
        rng.integers(0, HOSTS, count, dtype=np.int32),
        message,
        rng.integers(0, 256, (count, 16), dtype=np.uint8),
    )


def _texts(letters: np.ndarray) -> pa.StringArray:
    count, width = letters.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = np.ascontiguousarray(letters).tobytes()
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
