"""What the index and the token bloom of a metric segment hold.

A classic histogram is one row here and many series in PromQL: `x_bucket`, `x_sum`, `x_count`. Whoever asks
for one of those must find the segment, so derived names are terms like stored ones, and labels that only
derived series have (`le`, `quantile`) stand there by their wildcard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from resources.lake.series import NAME_FIELD, NAME_LABEL
from resources.lake.streams import Labels
from resources.lake.terms import terms_of, wildcard

DERIVED = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
DERIVED_LABELS = {"histogram": "le", "summary": "quantile"}


def derived_names(table: pa.Table) -> tuple[set[str], set[str]]:
    """Names and labels that PromQL derives from the rows of the table.

    By type and not by whether there are buckets: a stale marker has none and ends the derived series too.
    """
    kinds = table.select(["chq_metric_type", "metric_name"]).group_by(["chq_metric_type", "metric_name"])
    names: set[str] = set()
    labels: set[str] = set()
    for row in kinds.aggregate([]).to_pylist():
        for suffix in DERIVED.get(row["chq_metric_type"], ()):
            names.add(row["metric_name"] + suffix)
            labels.add(DERIVED_LABELS[row["chq_metric_type"]])
    return names, labels


def index_terms(
    names: Iterable[str], label_sets: Iterable[Labels], derived_labels: Iterable[str]
) -> tuple[int, ...]:
    """`names`: stored and derived. `__name__` itself is no field: names are asked for by `NAME_FIELD`."""
    return terms_of_values(names, values_by_label(label_sets), derived_labels)


def values_by_label(label_sets: Iterable[Labels]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for labels in label_sets:
        for name, value in labels:
            found.setdefault(name, set()).add(value)
    return found


def terms_of_values(
    names: Iterable[str], of_labels: Mapping[str, set[str]], derived_labels: Iterable[str]
) -> tuple[int, ...]:
    """The same from the values that each label has."""
    values: dict[str, set[str]] = {name: found for name, found in of_labels.items() if name != NAME_LABEL}
    # a label called like NAME_FIELD adds to the names, which only widens
    values[NAME_FIELD] = values.get(NAME_FIELD, set()).union(names)
    return tuple(sorted({*terms_of(values), *map(wildcard, derived_labels)}))


def bloom_columns(table: pa.Table, label_sets: Iterable[Labels]) -> Iterator[pa.Array]:
    """Label values, and the trace and span ids of exemplars."""
    yield pa.array({value for labels in label_sets for _, value in labels}, pa.string())
    yield from exemplar_ids(table)


def exemplar_ids(table: pa.Table) -> Iterator[pa.Array]:
    if "chq_exemplars" in table.column_names:
        exemplars = table.column("chq_exemplars").chunk(0).flatten()
        for name in ("trace_id", "span_id"):
            yield pc.struct_field(exemplars, name)
