"""What goes into a decoder beside the bytes, and what comes out: the same for every format and signal."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from resources.lake.options import DecodeOptions, MetricNaming
from resources.lake.streams import Labels

__all__ = ["DecodeOptions", "Decoded", "MetricNaming", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which rows these are: the object, the ordinal of the slice's first row in it, when it arrived."""

    object_id: int
    first_position: int
    arrival_ns: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of one slice, in their order."""

    table: pa.Table
    rejected: int = 0
    """Records that could not be read, alone: lines of JSON or CSV. OTLP has no such thing."""
    notes: dict[str, int] = field(default_factory=dict)
    """What was odd, counted: time_from_observed, time_from_arrival, invalid_utf8, invalid_trace_id, …"""
    first_rejected: str = ""
    """Where and why the first of the rejected could not be read."""
    streams: dict[int, Labels] = field(default_factory=dict)
