"""Which physical columns of a segment hold which label, and how their values are spelled.

Names and precedence follow Loki's OTLP mapping: fields of the record itself, then log, scope and resource
attributes. A physical name is only good within its own segment; where one label has several columns, the
first that has a value is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.worker.logs.otel_text import text
from lakerunner_query.worker.segment_facts import Footer
from resources.lake.segment_file import OVERFLOW_COLUMNS

Show = Callable[[pa.Array], pa.StringArray]
"""Distinct values as texts, null where the row counts as having none."""

SYSTEM, LOG, SCOPE, RESOURCE = range(4)
PRECEDENCE = {"record": LOG, "scope": SCOPE, "resource": RESOURCE}
EXTRACTED = "_extracted"
UNKNOWN = "unknown"
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_:]")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True, slots=True)
class Source:
    """A column that may hold the label."""

    name: str
    column: str
    precedence: int
    show: Show


def as_hex(values: pa.Array) -> pa.StringArray:
    """Ids as people write them; one of zeros only is none."""
    width = values.type.byte_width if pa.types.is_fixed_size_binary(values.type) else 0
    if not width:
        return as_text(values)
    filled = values.fill_null(b"\0" * width)
    start = filled.offset * width
    raw = np.frombuffer(filled.buffers()[1], np.uint8)[start : start + len(filled) * width]
    raw = raw.reshape(len(filled), width)
    letters = _HEX[np.stack((raw >> 4, raw & 15), 2)].tobytes()
    offsets = pa.py_buffer(np.arange(len(filled) + 1, dtype=np.int32) * (2 * width))
    found = pa.StringArray.from_buffers(len(filled), offsets, pa.py_buffer(letters))
    return pc.if_else(pa.array(raw.any(axis=1)), found, NONE)


def if_any(values: pa.Array) -> pa.StringArray:
    """Zero, or the empty text, means that nothing was sent."""
    nothing = "" if pa.types.is_string(values.type) else "0"
    texts = as_text(values)
    return pc.if_else(pc.equal(texts, nothing), NONE, texts)


def as_level(values: pa.Array) -> pa.StringArray:
    texts = as_text(values).fill_null(UNKNOWN)
    return pc.if_else(pc.equal(texts, ""), UNKNOWN, texts)


def as_text(values: pa.Array) -> pa.StringArray:
    """OpenTelemetry's string form."""
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        return values.cast(pa.string())
    return pa.array([None if one is None else text(one) for one in values.to_pylist()], pa.string())


NONE = pa.scalar(None, pa.string())
RECORD_FIELDS: dict[str, tuple[str, Show]] = {
    "trace_id": ("trace_id", as_hex),
    "span_id": ("span_id", as_hex),
    "log_severity_number": ("severity_number", if_any),
    "log_severity_text": ("severity_text", if_any),
    "chq_observed_tsns": ("observed_timestamp", if_any),
    "log_flags": ("flags", if_any),
    "event_name": ("event_name", if_any),
    "chq_dropped_attributes": ("dropped_attributes_count", if_any),
    "scope_name": ("scope_name", if_any),
    "scope_version": ("scope_version", if_any),
    "detected_level": ("detected_level", as_level),
}
OVERFLOWS = frozenset(OVERFLOW_COLUMNS.values())


def sources_of(footer: Footer, names: Collection[str] | None = None) -> list[Source]:
    """Of one segment, best first; `names` None: of all labels."""
    found = [one for one in _all_sources(footer) if names is None or one.name in names]
    return sorted(found, key=lambda source: (source.name, source.precedence))


def columns_for(footers: Sequence[Footer], names: Collection[str] | None = None) -> list[str]:
    """Every physical column that can hold one of these labels in any of the files."""
    asked = None if names is None else {*names, *(name.removesuffix(EXTRACTED) for name in names)}
    if asked is not None and not asked:
        return []
    known = {one.column for footer in footers for one in sources_of(footer, asked)}
    spilled = {name for footer in footers for name in footer.columns if name in OVERFLOWS}
    return sorted(known | spilled)


def loki_name(key: str) -> str:
    """
    >>> loki_name("http.status-code"), loki_name("1st")
    ('http_status_code', '_1st')
    """
    name = _NOT_A_NAME.sub("_", key)
    return f"_{name}" if name[:1].isdigit() else name


def _all_sources(footer: Footer) -> Iterator[Source]:
    owned = {one.column for one in footer.mapped}
    for column, (name, show) in RECORD_FIELDS.items():
        if column in footer.columns and column not in owned:
            yield Source(name, column, SYSTEM, show)
    for one in sorted(footer.mapped, key=lambda mapped: mapped.column):
        yield Source(loki_name(one.key), one.column, PRECEDENCE[one.scope], as_text)
