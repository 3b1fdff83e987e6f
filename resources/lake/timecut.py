"""This module alone divides timestamps.

Buckets and partitions are left-open, `(start, end]`, like the windows of PromQL 3 and LogQL: the event at
exactly 12:00:00 belongs to the hour that *ends* then. Integer floor arithmetic, right for t <= 0.

>>> cut(1, 10), cut(10, 10), cut(11, 10), cut(0, 10)
(0, 0, 10, -10)
"""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

import numpy as np
import numpy.typing as npt

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 3600 * SECOND_NS
DAY_NS = 24 * HOUR_NS

Time = TypeVar("Time", int, npt.NDArray[np.int64])

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def cut(t: Time, width: int) -> Time:
    """Return the start of the bucket `(start, start + width]` that holds `t`.

    `t` and `width` have the same unit.
    """
    return (t - 1) // width * width


def hour_start(t_ns: int) -> int:
    return cut(t_ns, HOUR_NS)


def from_datetime(moment: dt.datetime) -> int:
    """Return nanoseconds since epoch, exact to the microsecond a datetime holds."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; all times here are UTC instants")
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND_NS + delta.microseconds * 1000


def to_datetime(t_ns: int) -> dt.datetime:
    """Return the instant as an aware UTC datetime, truncated to microseconds."""
    return _EPOCH + dt.timedelta(microseconds=t_ns // 1000)


def dateint(start_ns: int) -> int:
    """Return `20250114` for a bucket that *starts* on 2025-01-14 UTC."""
    day = to_datetime(start_ns)
    return day.year * 10_000 + day.month * 100 + day.day


def hour_of_day(start_ns: int) -> int:
    return to_datetime(start_ns).hour
