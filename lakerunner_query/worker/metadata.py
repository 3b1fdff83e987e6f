"""Structured metadata of scanned rows as JSON text, by columns instead of row by row.

Every source column becomes an array of `"name":"value"` fragments (null where the row has none); sources of
one name are coalesced and the fragments joined by Arrow. Names and precedence follow Loki's OTLP mapping:
fields of the record itself, then log, scope and resource attributes; a resource attribute that became a
stream label is not repeated, any other clash with a stream label gets the suffix `_extracted`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.worker.otel_text import text
from lakerunner_query.worker.segment_facts import Footer
from resources.lake.segment_file import OVERFLOW_COLUMNS

Show = Callable[[object], str | None]

SYSTEM, LOG, SCOPE, RESOURCE = range(4)
PRECEDENCE = {"record": LOG, "scope": SCOPE, "resource": RESOURCE}
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_:]")


def _hex(value: object) -> str | None:
    return value.hex() if isinstance(value, bytes) and value.strip(b"\0") else None


def _positive(value: object) -> str | None:
    return str(value) if value else None


def _level(value: object) -> str:
    return str(value) if value else "unknown"


def _plain(value: object) -> str | None:
    return None if value is None else text(value)


RECORD_FIELDS: dict[str, tuple[str, Show]] = {
    "trace_id": ("trace_id", _hex),
    "span_id": ("span_id", _hex),
    "log_severity_number": ("severity_number", _positive),
    "log_severity_text": ("severity_text", _positive),
    "chq_observed_tsns": ("observed_timestamp", _positive),
    "log_flags": ("flags", _positive),
    "event_name": ("event_name", _positive),
    "chq_dropped_attributes": ("dropped_attributes_count", _positive),
    "scope_name": ("scope_name", _positive),
    "scope_version": ("scope_version", _positive),
    "detected_level": ("detected_level", _level),
}


@dataclass(frozen=True, slots=True)
class Scanned:
    """Rows of a scan with what is needed to name their values."""

    rows: pa.Table
    files: pa.Array
    """Index into `footers`, per row."""
    ranks: pa.Array
    """Index into `labels`, per row."""
    footers: Sequence[Footer]
    labels: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    precedence: int
    values: pa.Array
    show: Show


def metadata_columns(footers: Sequence[Footer]) -> list[str]:
    """Every physical column that can hold metadata in any of the files."""
    known = {name for footer in footers for name in footer.columns}
    mapped = {one.column for footer in footers for one in footer.mapped}
    return sorted(known & (mapped | set(RECORD_FIELDS) | set(OVERFLOW_COLUMNS.values())))


def metadata_json(scanned: Scanned) -> pa.Array:
    """One JSON object per row, names sorted."""
    if scanned.rows.num_rows == 0:
        return pa.array([], pa.string())
    by_name: dict[str, list[_Source]] = {}
    for source in (*_record_fields(scanned), *_attributes(scanned)):
        by_name.setdefault(source.name, []).append(source)
    fragments = [one for name in sorted(by_name) for one in _fragments(name, by_name[name], scanned)]
    joined = pc.binary_join_element_wise(*fragments, ",", null_handling="skip")
    return _with_overflow(pc.binary_join_element_wise("{", joined, "}", ""), scanned)


def loki_name(key: str) -> str:
    """
    >>> loki_name("http.status-code"), loki_name("1st")
    ('http_status_code', '_1st')
    """
    name = _NOT_A_NAME.sub("_", key)
    return f"_{name}" if name[:1].isdigit() else name


def _record_fields(scanned: Scanned) -> list[_Source]:
    names = set(scanned.rows.column_names)
    owned = {one.column for footer in scanned.footers for one in footer.mapped}
    return [
        _Source(name, SYSTEM, _column(scanned, column), show)
        for column, (name, show) in RECORD_FIELDS.items()
        if column in names and column not in owned
    ]


def _attributes(scanned: Scanned) -> list[_Source]:
    """The same column can hold different attributes in different files."""
    holders: dict[tuple[str, str, str], set[int]] = {}
    for index, footer in enumerate(scanned.footers):
        for one in footer.mapped:
            holders.setdefault((one.column, one.scope, one.key), set()).add(index)
    sources: list[_Source] = []
    for (column, scope, key), files in sorted(holders.items()):
        values = _column(scanned, column)
        if len(files) < len(scanned.footers):
            here = pc.is_in(scanned.files, value_set=pa.array(sorted(files), scanned.files.type))
            values = pc.if_else(here, values, pa.scalar(None, values.type))
        if values.null_count < len(values):
            sources.append(_Source(loki_name(key), PRECEDENCE[scope], values, _plain))
    return sources


def _fragments(name: str, sources: list[_Source], scanned: Scanned) -> list[pa.Array]:
    """Usually one array; two when some streams already have a label of this name."""
    clash = [name in labels for labels in scanned.labels]
    clashes = any(clash)
    usable = sorted(sources, key=lambda source: source.precedence)
    kept = [s for s in usable if not (clashes and s.precedence == RESOURCE)]
    plain = [_fragment(name, source) for source in usable]
    if not clashes:
        return [pc.coalesce(*plain)]
    clashing = pa.array(clash).take(scanned.ranks)
    nothing = pa.scalar(None, pa.string())
    found = [pc.if_else(clashing, nothing, pc.coalesce(*plain))]
    if kept:
        renamed = pc.coalesce(*(_fragment(f"{name}_extracted", source) for source in kept))
        found.append(pc.if_else(clashing, renamed, nothing))
    return found


def _fragment(name: str, source: _Source) -> pa.Array:
    """`"name":"value"` for every row; each distinct value is rendered once."""
    prefix = msgspec.json.encode(name).decode() + ":"
    encoded = source.values.dictionary_encode(null_encoding="encode")
    shown = map(source.show, encoded.dictionary.to_pylist())
    rendered = [None if one is None else prefix + msgspec.json.encode(one).decode() for one in shown]
    return pa.array(rendered, pa.string()).take(encoded.indices)


def _column(scanned: Scanned, name: str) -> pa.Array:
    return scanned.rows.column(name).combine_chunks()


def _with_overflow(objects: pa.Array, scanned: Scanned) -> pa.Array:
    """Attributes that found no column of their own: rare, so row by row."""
    labels = [scanned.labels[rank] for rank in scanned.ranks.to_pylist()]
    for scope, column in OVERFLOW_COLUMNS.items():
        if column not in scanned.rows.column_names or _column(scanned, column).null_count == len(objects):
            continue
        extras = _column(scanned, column).to_pylist()
        merged = map(partial(_merged, scope=scope), objects.to_pylist(), extras, labels)
        objects = pa.array(merged, pa.string())
    return objects


def _merged(
    rendered: str, extra: list[tuple[str, str]] | None, labels: Mapping[str, str], *, scope: str
) -> str:
    if not extra:
        return rendered
    known: dict[str, str] = msgspec.json.decode(rendered)
    named = ((loki_name(key), value) for key, value in extra)
    found = {
        f"{name}_extracted" if name in labels else name: value
        for name, value in named
        if not (name in labels and scope == "resource")
    }
    return msgspec.json.encode(found | known, order="sorted").decode()
