"""Frames pass between the front of a worker, its reader process, and the coordinator's dispatcher.

The front answers HTTP and owns the queue; the reader process runs units. Each thread of the reader has a pair
of sockets: a unit goes in, its answer comes out. One more pair carries control messages, a JSON object per
line. Nothing here needs Arrow: the front stays small and starts at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec

TOKEN_HEADER = "x-lakerunner-internal-token"  # noqa: S105 -- the name of a header, not a secret
ORG_HEADER = "x-lakerunner-org"
"""Organisation that a unit belongs to, percent-encoded: the worker queues by it."""
UNIT_HEADER = "x-lakerunner-unit"
"""Id that the dispatcher gave to a unit, to ask for its progress."""
CPU_HEADER = "x-lakerunner-cpu-seconds"
"""CPU seconds that the answer took."""
BUSY, UNFINISHED, CRASHED = "busy", "unfinished", "crashed"
"""Codes of units that come back undone: the queue is full; the reader process had to stop; it crashed."""
OVER_BUDGET = "over_budget"
"""Code of a unit that used more CPU time than one may."""
CANCELLED = 499
OK = 200
REQUEST = struct.Struct("<QQ")
"""Number of the unit, and the length of its text."""
ANSWER = struct.Struct("<QdQQ")
"""Number of the unit, CPU seconds, the length of the outcome and of the body."""

PID = struct.Struct("<Q")
"""Pid of a reader that was forked."""


class Outcome(msgspec.Struct, frozen=True):
    """The end of a unit: its status as in HTTP, and the error or the counters' increments."""

    status: int = OK
    code: str = ""
    message: str = ""
    counts: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Answered:
    """A unit's end with the encoded answer."""

    outcome: Outcome
    cpu_s: float
    body: bytes


class Progress(msgspec.Struct, frozen=True):
    """A unit at a worker, as the dispatcher asks for it."""

    state: str
    """`queued`, `running`, `stalled` where it runs without getting on, or `unknown`."""
    cpu_s: float = 0.0


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """A request to stop the unit of this number."""

    number: int


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """A request for a sign of life, with metrics if they are wanted."""

    metrics: bool = False


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The reader takes units; `threads` are the system's ids of its threads, by slot."""

    threads: tuple[int, ...]


class Warm(msgspec.Struct, frozen=True, tag="warm"):
    """The reader has loaded its kernels."""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """A sign of life."""

    gauges: dict[str, float] = {}
    text: str = ""
    """Metrics in Prometheus' text format."""


ToReader = Cancel | Ping
FromReader = Opened | Warm | Pong
