"""The columns of the result follow from footers, before a row is read.

Attributes are named anew over the union of the label maps; those beyond the limit, least frequent first,
go to the overflow maps. A text column is merged as codes if its dictionaries are small in every source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakerunner_assets.decode.naming import MAX_COLUMNS, Attribute, assign
from lakerunner_assets.segments.encoding import (
    BLOOM_COLUMNS,
    HASHES,
    LOG_LEVEL,
    MESSAGE,
    MESSAGE_LEVEL,
    METRIC_LEVEL,
    STRONG_LEVEL,
    Encodings,
)
from lakerunner_assets.segments.merge.request import MergeKind, SourceError
from lakerunner_assets.segments.merge.source import DICTIONARY, Key, Source
from lakerunner_assets.segments.metric_columns import in_order
from lakerunner_assets.segments.order import MAX_GROUP_ROWS, SMALL_SEGMENT_ROWS, columns_in_order
from lakerunner_assets.segments.unify import MAP, split_by_frequency
from resources.lake.columns import CHQ_TIMESTAMP, CHQ_VALUE
from resources.lake.metric_values import BASE, DOUBLE, EXPONENT, SCALED, VALUE_COLUMNS
from resources.lake.segment_file import OVERFLOW_COLUMNS, MappedColumn

VALUE = CHQ_VALUE
CODED_SHARE = 3 / 4
"""Least share of rows with small dictionaries: the others are looked up one by one."""
STRONG_SHARE = 0.95
"""Most that the strong level may leave of what the ordinary one does."""
_SAMPLE_BYTES = 1 << 20
_OVERFLOWS = frozenset(OVERFLOW_COLUMNS.values())


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    key: Key
    kind: pa.DataType
    """Type of the values, not of the codes."""
    is_coded: bool
    nullable: bool

    @property
    def field(self) -> pa.Field:
        kind = pa.dictionary(pa.int32(), self.kind) if self.is_coded else self.kind
        plain = pa.field(self.name, kind, self.nullable)
        return plain if isinstance(self.key, str) else self.key.field(self.name, kind)


@dataclass(frozen=True, slots=True)
class Layout:
    columns: tuple[Column, ...]
    label_map: tuple[MappedColumn, ...]
    demoted: dict[str, tuple[Attribute, ...]]
    """Attributes that move into each overflow column."""


def layout_of(sources: Sequence[Source], kind: MergeKind, max_columns: int = MAX_COLUMNS) -> Layout:
    kept, demoted = split_by_frequency(_counts(sources), max_columns)
    names = assign(kept)
    columns = [
        _column(sources, name, name) for name in _system_names(sources, kind) if name not in _OVERFLOWS
    ]
    ordered = sorted(kept, key=names.__getitem__)
    columns += [_column(sources, names[attribute], attribute) for attribute in ordered]
    moved: dict[str, tuple[Attribute, ...]] = {}
    for scope, name in OVERFLOW_COLUMNS.items():
        moved[name] = tuple(attribute for attribute in demoted if attribute.scope == scope)
        if moved[name] or any(name in source.keys for source in sources):
            columns.append(Column(name, name, MAP, False, True))
    label_map = tuple(MappedColumn(names[a], a.scope, a.key, a.kind) for a in ordered)
    return Layout(tuple(columns), label_map, moved)


def _counts(sources: Sequence[Source]) -> Counter[Attribute]:
    """Count the rows that have each attribute."""
    counts: Counter[Attribute] = Counter()
    for source in sources:
        for name, key in source.keys.items():
            if isinstance(key, Attribute):
                leaf = source.leaves[name]
                counts[key] += leaf.values - leaf.nulls
    return counts


def _system_names(sources: Sequence[Source], kind: MergeKind) -> list[str]:
    names: dict[str, None] = {}
    for source in sources:
        names |= {key: None for key in source.keys.values() if isinstance(key, str)}
    if kind is not MergeKind.SAMPLES:
        return columns_in_order(names) if kind is MergeKind.LOGS else list(names)
    if lacking := [name for name in VALUE_COLUMNS if name not in names]:
        raise SourceError(sources[0].path, f"expected the columns {lacking}")
    return in_order([*(name for name in names if name not in VALUE_COLUMNS), VALUE])


def _share(found: Sequence[tuple[Source, str]]) -> float:
    """Return the share of rows in sources with small dictionaries."""
    small = sum(source.rows for source, place in found if source.leaves[place].small_dictionary)
    return small / sum(source.rows for source, _ in found)


def _column(sources: Sequence[Source], name: str, key: Key) -> Column:
    if name == VALUE:
        return Column(name, key, pa.float64(), False, True)
    found = [(source, place) for source in sources for place, own in source.keys.items() if own == key]
    kinds = [source.schema.field(place).type for source, place in found]
    kind = kinds[0]
    if any(other != kind for other in kinds):
        if any(pa.types.is_nested(other) for other in kinds):
            raise SourceError(found[-1][0].path, f"{key} is {kinds[-1]}, elsewhere {kind}")
        kind = pa.string()
    is_coded = (
        pa.types.is_string(kind)
        and all(pa.types.is_string(other) for other in kinds)
        and _share(found) >= CODED_SHARE
    )
    nullable = len(found) < len(sources) or any(s.schema.field(place).nullable for s, place in found)
    return Column(name, key, kind, is_coded, nullable)


_VALUE_FIELDS = (
    pa.field(SCALED, pa.int64()),
    pa.field(BASE, pa.int64(), nullable=False),
    pa.field(EXPONENT, pa.int32(), nullable=False),
    pa.field(DOUBLE, pa.float64()),
)


@dataclass(frozen=True, slots=True)
class Format:
    schema: pa.Schema
    options: dict[str, Any]
    """Arguments of the Parquet writer."""


def format_of(sources: Sequence[Source], layout: Layout, kind: MergeKind) -> Format:
    fields: list[pa.Field] = []
    for column in layout.columns:
        fields += (
            [] if column.name == VALUE else [column.field.remove_metadata().with_nullable(column.nullable)]
        )
        fields += _VALUE_FIELDS if kind is MergeKind.SAMPLES and column.name == CHQ_TIMESTAMP else ()
    schema = pa.schema(fields)
    names: dict[Key, str] = {column.key: column.name for column in layout.columns}
    names |= {field.name: field.name for field in _VALUE_FIELDS}
    votes: dict[str, Counter[str]] = {}
    for source in sources:
        for path, leaf in source.leaves.items():
            top, dot, rest = path.partition(".")
            key = source.keys.get(top)
            if key in names:
                votes.setdefault(names[key] + dot + rest, Counter()).update(leaf.encodings)
    chosen = {path: max(sorted(found), key=found.__getitem__) for path, found in votes.items()}
    coded = {column.name for column in layout.columns if column.is_coded}
    encodings = Encodings(
        tuple(path for path, encoding in chosen.items() if encoding == DICTIONARY or path in coded),
        {
            path: encoding
            for path, encoding in chosen.items()
            if encoding not in (DICTIONARY, "PLAIN") and path not in coded and path not in HASHES
        },
    )
    level = METRIC_LEVEL if kind in (MergeKind.SAMPLES, MergeKind.ROLLUP) else LOG_LEVEL
    message_level = _message_level(sources) if kind is MergeKind.LOGS else level
    return Format(schema, encodings.writer_options(schema, _bloom_rows(sources, kind), level, message_level))


def _message_level(sources: Sequence[Source]) -> int:
    """Choose the strong level if it saves enough of the first messages of the largest source.

    It takes four times as long: words that repeat over services and minutes are worth it, random ones not.
    """
    largest = max(sources, key=lambda source: source.rows)
    batch = next(largest.batches([], _SAMPLE_BYTES, [MESSAGE]), None)
    if batch is None:
        return MESSAGE_LEVEL
    sample = "\n".join(batch.column(0).drop_null().to_pylist()).encode()[:_SAMPLE_BYTES]
    weak, strong = (
        len(pa.Codec("zstd", level).compress(sample, asbytes=True)) for level in (MESSAGE_LEVEL, STRONG_LEVEL)
    )
    return STRONG_LEVEL if strong < weak * STRONG_SHARE else MESSAGE_LEVEL


def _bloom_rows(sources: Sequence[Source], kind: MergeKind) -> dict[str, int]:
    """Count the values to expect in the largest row group; empty columns and small files get no filter."""
    if kind is MergeKind.LOGS and sum(source.rows for source in sources) < SMALL_SEGMENT_ROWS:
        return {}
    largest = min(MAX_GROUP_ROWS, sum(source.largest_group for source in sources))
    found: dict[str, int] = {}
    for name in BLOOM_COLUMNS:
        leaves = [source.leaves[name] for source in sources if name in source.leaves]
        if present := sum(leaf.values - leaf.nulls for leaf in leaves):
            found[name] = min(largest, present)
    return found
