"""Columns of foreign data play roles (time, message, service, …), found by name.

    {"ts": 1767323045, "msg": "hello", "app": "web", "user": "ann"}
      timestamp         message         service       everything else: an attribute

Names are compared without case, `.` equal to `_`. For each role an organisation's own names (`fields`
setting) come before the usual ones, and in every row the first name that has a usable value there wins. A
value that no role took, also one that came second, stays an attribute under its own name: nothing is lost. A
name an organisation gives to one role is never read as a usual name of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode.json.lines import RawRows

Mask = npt.NDArray[np.bool_]
Key = tuple[str, str]
"""Name and kind of a raw column."""
OwnNames = Sequence[tuple[str, Sequence[str]]]
"""The `fields` setting: (role, its names)."""

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "timestamp": (
        "timestamp", "@timestamp", "time", "ts", "_time", "event_time", "eventtime", "datetime", "date_time",
        "date", "time_unix_nano", "timeunixnano", "timestamp_ns", "timestamp_ms", "asctime", "created",
    ),
    "observed_timestamp": (
        "observed_timestamp", "observedtimestamp", "observed_time", "observedtime",
        "observed_time_unix_nano", "observedtimeunixnano",
    ),
    "level": (
        "level", "severity", "severity_text", "severitytext", "loglevel", "log_level", "lvl", "levelname",
        "level_name",
    ),
    "severity_number": ("severity_number", "severitynumber"),
    "message": (
        "message", "msg", "_msg", "body", "log", "text", "line", "log_message", "short_message",
        "textpayload", "@message", "event",
    ),
    "service": (
        "service_name", "service", "servicename", "app", "application", "app_name", "appname",
        "application_name", "component", "job",
    ),
    "trace_id": ("trace_id", "traceid"),
    "span_id": ("span_id", "spanid"),
    "metric_name": ("metric_name", "metricname", "metric", "__name__", "name"),
    "value": ("value", "val", "metric_value", "metricvalue", "_value"),
    "labels": ("labels", "tags", "attributes", "dimensions"),
    "metric_type": ("metric_type", "metrictype", "type"),
    "unit": ("unit", "metric_unit", "metricunit"),
    "span_name": ("span_name", "spanname", "name", "operation_name", "operationname", "operation"),
    "parent_span_id": (
        "parent_span_id", "parentspanid", "parent_id", "parentid", "span_parent_span_id",
    ),
    "start": (
        "start", "start_time", "starttime", "start_timestamp", "start_time_unix_nano",
        "starttimeunixnano", "start_ns", "start_us", "start_ms", "span_start_ns",
    ),
    "end": (
        "end", "end_time", "endtime", "end_timestamp", "end_time_unix_nano", "endtimeunixnano",
        "end_ns", "end_us", "end_ms", "span_end_ns",
    ),
    "duration": (
        "duration_ns", "duration_nano", "duration_nanos", "durationns", "durationnano", "durationnanos",
        "span_duration_ns", "duration_us", "duration_micros", "durationus", "durationmicros",
        "duration_ms", "duration_millis", "durationms", "durationmillis", "duration_s",
        "duration_seconds", "duration",
    ),
    "kind": ("kind", "span_kind", "spankind"),
    "status": ("status_code", "statuscode", "status", "span_status", "span_status_code"),
    "status_message": ("status_message", "statusmessage", "span_status_message"),
}  # fmt: skip
"""Usual names per role in order of preference, in lower case, `_` for `.`.

Roles without a setting of their own: severity_number, status_message.
"""

ROLES_OF_SIGNAL: Mapping[str, tuple[str, ...]] = {
    "logs": (
        "timestamp", "observed_timestamp", "level", "severity_number", "message", "service", "trace_id",
        "span_id",
    ),
    "metrics": ("timestamp", "start", "metric_name", "value", "labels", "metric_type", "unit"),
    "traces": (
        "trace_id", "span_id", "parent_span_id", "span_name", "service", "start", "timestamp", "end",
        "duration", "kind", "status", "status_message",
    ),
}  # fmt: skip
"""Roles that records of each signal have; columns of other roles are attributes."""


def comparable(name: str) -> str:
    """Fold a name for comparison.

    >>> comparable("Service.Name") == comparable("service_name")
    True
    """
    return name.lower().replace(".", "_")


def resolve(keys: Sequence[Key], own_names: OwnNames, roles: Sequence[str]) -> dict[str, list[Key]]:
    """List the columns that may play each role, in order of preference.

    >>> resolve([("msg", "string"), ("text", "string")], [("message", ("text",))], ("message",))
    {'message': [('text', 'string'), ('msg', 'string')]}
    """
    names = names_of(own_names, roles)
    by_name: dict[str, list[Key]] = {}
    for key in sorted(keys):
        by_name.setdefault(comparable(key[0]), []).append(key)
    found: dict[str, list[Key]] = {}
    claimed: set[Key] = set()
    for role in roles:
        found[role] = [key for name in names[role] for key in by_name.get(name, ()) if key not in claimed]
        claimed.update(found[role])
    return found


def names_of(own_names: OwnNames, roles: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """List the comparable names of each role."""
    own = {role: tuple(map(comparable, names)) for role, names in own_names if role in roles}
    owner = {name: role for role, names in own.items() for name in names}
    return {
        role: tuple(
            dict.fromkeys((*own.get(role, ()), *(n for n in USUAL_NAMES[role] if owner.get(n, role) == role)))
        )
        for role in roles
    }


@dataclass(slots=True)
class Fields:
    """Raw columns of a slice while roles take values from them."""

    rows: RawRows
    roles: dict[str, list[Key]]
    names: dict[str, tuple[str, ...]]
    """Comparable names of each role, also those that no column has."""
    _taken: dict[Key, Mask | None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.rows.count

    def candidates(self, role: str) -> Iterator[tuple[Key, pa.Array]]:
        for key in self.roles.get(role, ()):
            yield key, self.rows.columns[key]

    def take(self, key: Key, mask: Mask | None = None) -> None:
        """Mark the values of these rows (default: all) as held by a role: they are no attributes."""
        before = self._taken.get(key)
        if mask is None or (key in self._taken and before is None):
            self._taken[key] = None
        else:
            self._taken[key] = mask if before is None else before | mask

    def used(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the columns from which each role took a value."""
        found = {
            role: tuple(dict.fromkeys(key[0] for key in keys if self._has_taken(key)))
            for role, keys in self.roles.items()
        }
        return {role: names for role, names in found.items() if names}

    def _has_taken(self, key: Key) -> bool:
        if key not in self._taken:
            return False
        mask = self._taken[key]
        return mask is None or bool(mask.any())

    def rest(self) -> Iterator[tuple[Key, pa.Array]]:
        """Yield the values that no role took."""
        for key, column in self.rows.columns.items():
            left = column
            if key in self._taken:
                mask = self._taken[key]
                if mask is None:
                    continue
                left = without(column, mask)
            if left.null_count < len(left):
                yield key, left


def fields_of(rows: RawRows, signal: str, own_names: OwnNames) -> Fields:
    """Resolve the roles of a slice's columns."""
    roles = ROLES_OF_SIGNAL[signal]
    return Fields(rows, resolve(list(rows.columns), own_names, roles), names_of(own_names, roles))


def valid(column: pa.Array) -> Mask:
    """Return which rows have a value."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def without(column: pa.Array, mask: Mask) -> pa.Array:
    """Return the column with null where the mask is set."""
    if not mask.any():
        return column
    kept = np.arange(len(column))
    return column.take(pa.array(kept, mask=mask))
