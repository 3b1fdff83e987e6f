"""Decisions about traces, the checkpoint of a sampler, and what it has yet to export.

Decisions are rows of fixed width, so that thousands of them reach the index as one block of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.void]
ID_BYTES = 16
DECISION = np.dtype(
    [
        ("trace_id", "V16"),
        ("is_kept", "?"),
        ("reason", "<i4"),
        ("probability", "<f8"),
        ("threshold", "<i8"),
        ("spans", "<i8"),
        ("first_ns", "<i8"),
        ("last_ns", "<i8"),
        ("first_sequence", "<i8"),
        ("last_sequence", "<i8"),
        ("sequence", "<i8"),
        ("revision", "<i4"),
    ]
)
"""Row of a decision; `reason` is a place in `SamplingStep.reasons`, and `SAME` where a revision keeps it."""
SAME = -1


@dataclass(frozen=True, slots=True)
class SamplerRecord:
    """A sampler as its process claimed it, with the checkpoint that was reached."""

    sampler_id: int
    org: str
    name: str
    owner: str
    token: int
    """Number of the claim."""
    snapshot_id: int = 0
    """Last snapshot of the table that was decided; 0: none yet."""
    sequence: int = 0
    low_sequence: int = 0
    """First commit with spans of a trace that was undecided then; the state is rebuilt from there."""
    watermark_ns: int = 0
    memory: bytes = b""
    """State of rate limits and dynamic samplers."""
    policies: str = ""
    """Hash of the policies that were applied last."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The policy that decided, and what it said."""

    policy: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExportBatch:
    """Traces for one destination: an Arrow stream that names them and the commits that hold their spans."""

    destination: str
    part: int
    traces: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SamplingStep:
    """All that follows from a commit of the table; it is stored whole or not at all."""

    record: SamplerRecord
    """The claim, with the checkpoint that is reached by this step."""
    decisions: Rows = field(repr=False)
    reasons: Sequence[Reason] = ()
    batches: Sequence[ExportBatch] = ()


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that somebody claimed to export it."""

    batch_id: int
    sampler_id: int
    destination: str
    sequence: int
    traces: int
    body: bytes = field(repr=False)
    attempts: int = 1
    """Number of this attempt; it fences off whoever claimed the batch before."""


@dataclass(frozen=True, slots=True)
class WaitingBatches:
    """Batches that one destination has yet to take, or refused."""

    sampler: str
    destination: str
    batches: int
    traces: int
    oldest_s: float
    attempts: int
    error: str
    dead_traces: int


@dataclass(frozen=True, slots=True)
class ExportLetter:
    """Part of a batch that is refused for good."""

    traces: int
    body: bytes = field(repr=False)
    error: str


@dataclass(frozen=True, slots=True)
class DeadTraces:
    """Traces that a destination refused for good."""

    letter_id: int
    sampler: str
    destination: str
    traces: int
    error: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision as the index explains it."""

    sampler: str
    trace_id: bytes
    is_kept: bool
    policy: str
    reason: str
    policies: str
    probability: float
    threshold: int
    spans: int
    first_ns: int
    last_ns: int
    first_sequence: int
    last_sequence: int
    sequence: int
    revision: int
    decided_s: float
    """Unix time of the decision."""


def no_rows() -> Rows:
    return np.zeros(0, DECISION)


def packed_ids(rows: Rows) -> bytes:
    """Return the trace ids one behind the other."""
    return np.ascontiguousarray(rows["trace_id"]).tobytes()


def ids_of(packed: bytes) -> list[bytes]:
    """Cut ids apart.

    >>> ids_of(bytes(16) + b"a" * 16)[1]
    b'aaaaaaaaaaaaaaaa'
    """
    return [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]


def rows_of(columns: dict[str, Any], count: int) -> Rows:
    """Build rows from columns; ids are packed bytes, columns without a value are zero."""
    rows = np.zeros(count, DECISION)
    for name, values in columns.items():
        rows[name] = np.frombuffer(values, "V16") if name == "trace_id" else values
    return rows
