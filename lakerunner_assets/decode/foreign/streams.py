"""Foreign records belong to streams by service, level and the organisation's index attributes.

Labels are built once per distinct combination, not per record.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.attributes import ResourceStreams
from lakerunner_assets.decode.foreign.mapping import comparable
from lakerunner_assets.decode.foreign.values import text_of, with_dictionary
from lakerunner_assets.decode.json.lines import RawRows
from resources.arrays import Int64s
from resources.lake.streams import UNKNOWN_SERVICE, Labels, canonical, stream_id

LabelColumn = tuple[str, pa.DictionaryArray]


def streams_of(
    rows: RawRows, given: Sequence[LabelColumn], index_attributes: Sequence[str]
) -> ResourceStreams:
    """Name the stream of every record; `of_resource` has one entry per record here."""
    columns = [*given, *_index_columns(rows, index_attributes)]
    codes, combinations = combine([column for _, column in columns], rows.count)
    names = [name for name, _ in columns]
    labels = [_labels(names, values) for values in combinations]
    known: dict[Labels, int] = {}
    stream_of_combination = np.array([known.setdefault(found, len(known)) for found in labels], np.int32)
    of_row = stream_of_combination[codes] if len(codes) else codes.astype(np.int32)
    return ResourceStreams(of_row, tuple(known), tuple(stream_id(found) for found in known))


def lower(column: pa.DictionaryArray) -> pa.DictionaryArray:
    words = pa.array([word.lower() for word in column.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(column.indices, words)


def combine(columns: Sequence[pa.DictionaryArray], count: int) -> tuple[Int64s, list[tuple[str | None, ...]]]:
    """Code the combination of values in each row; return the values of each combination too.

    >>> codes, values = combine([pa.array(["a", "b", "a"]).dictionary_encode()], 3)
    >>> codes.tolist(), values
    ([0, 1, 0], [('a',), ('b',)])
    """
    codes = np.zeros(count, np.int64)
    for column in columns:
        size = len(column.dictionary) + 1
        ids = column.indices.cast(pa.int64()).fill_null(size - 1).to_numpy()
        codes = pa.array(codes * size + ids).dictionary_encode().indices.to_numpy().astype(np.int64)
    # codes come in order of first appearance, so a new one is a new maximum
    first = pa.array(np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1) > 0))
    values = [column.take(first).to_pylist() for column in columns]
    return codes, list(zip(*values, strict=True)) if columns else [()] * len(first)


def _index_columns(rows: RawRows, index_attributes: Sequence[str]) -> list[LabelColumn]:
    """List columns named like an index attribute; `service.name` is the service role's."""
    wanted = {comparable(name): name.replace(".", "_") for name in index_attributes}
    wanted.pop("service_name", None)
    return [
        (wanted[comparable(key)], with_dictionary(text_of(kind, column)))
        for (key, kind), column in sorted(rows.columns.items(), key=lambda item: item[0])
        if comparable(key) in wanted
    ]


def _labels(names: Sequence[str], values: Sequence[str | None]) -> Labels:
    """Make the labels of one combination. The first value of a name wins; none at all is no label."""
    found: dict[str, str] = {}
    for name, value in zip(names, values, strict=True):
        if value:
            found.setdefault(name, value)
    return canonical({"service_name": UNKNOWN_SERVICE, **found})
