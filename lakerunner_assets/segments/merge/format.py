"""How the columns of the result are written: as most rows of the sources are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakerunner_assets.segments.encoding import BLOOM_COLUMNS, LOG_LEVEL, METRIC_LEVEL, Encodings
from lakerunner_assets.segments.merge.layout import VALUE, Layout
from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.merge.source import DICTIONARY, Key, Source
from lakerunner_assets.segments.order import MAX_GROUP_ROWS
from resources.lake.metric_values import BASE, DOUBLE, EXPONENT, SCALED

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
    """Of the Parquet writer."""


def format_of(sources: Sequence[Source], layout: Layout, kind: MergeKind) -> Format:
    fields: list[pa.Field] = []
    for column in layout.columns:
        fields += (
            [] if column.name == VALUE else [column.field.remove_metadata().with_nullable(column.nullable)]
        )
        fields += _VALUE_FIELDS if kind is MergeKind.SAMPLES and column.name == "chq_timestamp" else ()
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
        {path: e for path, e in chosen.items() if e not in (DICTIONARY, "PLAIN") and path not in coded},
    )
    level = METRIC_LEVEL if kind in (MergeKind.SAMPLES, MergeKind.ROLLUP) else LOG_LEVEL
    return Format(schema, encodings.writer_options(schema, _bloom_rows(sources), level))


def _bloom_rows(sources: Sequence[Source]) -> dict[str, int]:
    """Values to expect in the largest row group; a column without values gets no filter."""
    largest = min(MAX_GROUP_ROWS, sum(source.largest_group for source in sources))
    found: dict[str, int] = {}
    for name in BLOOM_COLUMNS:
        leaves = [source.leaves[name] for source in sources if name in source.leaves]
        if present := sum(leaf.values - leaf.nulls for leaf in leaves):
            found[name] = min(largest, present)
    return found
