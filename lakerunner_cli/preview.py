"""A file is looked at before its upload: what its columns become, why it is refused.

The decoders of the pipeline read the beginning, so the reason is the one that cooking would give.
"""

from __future__ import annotations

import datetime as dt
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request, decode
from lakerunner_assets.decode.errors import DecodeError
from lakerunner_assets.decode.foreign.log_rows import (
    MESSAGE_FROM_FIELDS,
    TIME_FROM_ARRIVAL,
    TIME_FROM_DATE,
    UNREADABLE_TIME,
)
from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from resources.lake.signals import FACTS
from resources.lake.timecut import HOUR_NS, from_datetime, to_datetime
from resources.settings import Settings

LOOK_BYTES = 1 << 20
LARGE_BYTES = 64 << 20
"""Size of a file from which only cooking unpacks it."""
SECOND_NS = 10**9
_PACKED = (".gz", ".zst")
_NAMES = 8


@dataclass(frozen=True, slots=True)
class Preview:
    """Findings about the beginning of a file."""

    refusal: str = ""
    """Reason of cooking, if it would refuse the file."""
    roles: str = ""
    """Columns that became time, message and service."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks at files of one organisation and signal."""

    org: str
    signal: Signal
    options: DecodeOptions
    settings: Settings

    def look(self, path: Path) -> Preview:
        """Decode the beginning of a file."""
        if path.stat().st_size > LARGE_BYTES and path.suffix.lower() in _PACKED:
            return Preview()
        try:
            first = self._first(path)
        except DecodeError as error:
            return Preview(refusal=str(error))
        if first is None:
            return Preview(warnings=("it has no records",))
        return Preview(roles=self._roles(first), warnings=tuple(self._warnings(first)))

    def _first(self, path: Path) -> DecodedSlice | None:
        place = Place(0, 0, time.time_ns())
        request = Request(path.name, place, self.options, LOOK_BYTES)
        limit = self.settings.object_max_bytes
        source = path.read_bytes() if path.stat().st_size <= LARGE_BYTES else path
        with open_payload(source, limit) as payload:
            return next(decode(payload, request, SIGNALS[self.signal].decoders()), None)

    def _roles(self, first: DecodedSlice) -> str:
        words = SIGNALS[self.signal].roles_in_words
        found = [(words[role], names) for role, names in first.roles.items() if role in words]
        return ", ".join(f"{word} from {' and '.join(map(repr, names[:_NAMES]))}" for word, names in found)

    def _warnings(self, first: DecodedSlice) -> Iterator[str]:
        rows = first.table.num_rows
        notes = first.notes
        if first.rejected:
            yield f"{first.rejected} of its first records cannot be read, first {first.first_rejected}"
        if late := notes.get(TIME_FROM_ARRIVAL, 0):
            unread = notes.get(UNREADABLE_TIME, 0)
            why = "their time cannot be read" if unread else "no column is read as their time"
            yield (
                f"{late} of the first {rows} rows get the time of their arrival: {why}; "
                f"{self._hint('timestamp', first)}"
            )
        if days := notes.get(TIME_FROM_DATE, 0):
            yield f"{days} of the first {rows} rows have a date and no time of day: they are at 00:00 UTC"
        if silent := notes.get(MESSAGE_FROM_FIELDS, 0):
            yield (
                f"{silent} of the first {rows} rows have no message and are shown as their fields; "
                f"{self._hint('message', first)}"
            )
        yield from self._outside(first)

    def _hint(self, role: str, first: DecodedSlice) -> str:
        known = [attribute_of(field) for field in first.table.schema]
        names = [found.key for found in known if found is not None and found.scope == "record"][:_NAMES]
        example = f'{{"{role}": ["{names[0] if names else "COLUMN"}"]}}'
        return (
            f"name the column as in `lakerunner admin setting set {self.org} fields {shlex.quote(example)}`"
            + (f" (columns: {', '.join(names)})" if names else "")
        )

    def _outside(self, first: DecodedSlice) -> Iterator[str]:
        """Say which rows go to the quarantine: no query sees them."""
        spec, settings = SIGNALS[self.signal], self.settings
        if not first.table.num_rows:
            return
        unit = spec.time_unit_ns
        times = first.table.column(spec.time_column).to_numpy()
        horizon = from_datetime(dt.datetime.fromisoformat(settings.horizon).replace(tzinfo=dt.UTC))
        latest = time.time_ns() + settings.future_tolerance_s * 10**9
        early, late = (times <= horizon // unit), (times > latest // unit)
        for rows, why in (
            (early, f"up to LAKERUNNER_HORIZON={settings.horizon}"),
            (late, f"more than LAKERUNNER_FUTURE_TOLERANCE_S={settings.future_tolerance_s} ahead"),
        ):
            if rows.any():
                yield (
                    f"{int(rows.sum())} of the first {len(times)} rows have times {why}, as "
                    f"{_written(int(times[rows][0]) * unit)}: they go to the quarantine, which no query sees"
                )


def _written(ns: int) -> str:
    """Write a time, also one that no calendar holds."""
    try:
        return f"{to_datetime(ns):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError):
        return f"{ns} ns"


def query_of(signal: Signal, hours: tuple[int, int], settings: Settings) -> str:
    """Return a command that shows rows of these event hours; '' for a signal that no API answers yet."""
    first, last = hours[0], hours[1] + HOUR_NS
    asked = FACTS[signal].first_query
    if asked is None:
        return ""
    end = last + SECOND_NS if asked.start else last  # ranges end before their end
    times = {asked.start: _written(first), asked.end: _written(end)}
    parameters = {"query": asked.query.replace("HOURS", str((last - first) // HOUR_NS)), **times}
    given = " ".join(
        f"--data-urlencode {shlex.quote(f'{name}={text}')}" for name, text in parameters.items() if name
    )
    address = f"http://{settings.query_host}:{settings.query_port}{asked.path}"
    return f'curl -sS -G "{address}" -H "x-cardinalhq-api-key: $READ_KEY" {given}'
