"""Labels and series of foreign data points come from their columns.

    name    value  host  labels                     series
    up      1      a     {"env": "prod", "n": 1}    {__name__="up", env="prod", host="a", n="1"}

Names are kept as they are written, also those that Prometheus would need quotes for. Label sets are built
once per distinct combination of values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.foreign.arrow_columns import json_texts
from lakerunner_assets.decode.foreign.mapping import Fields, Key, comparable, valid, without
from lakerunner_assets.decode.foreign.streams import combine
from lakerunner_assets.decode.foreign.values import text_of, with_dictionary
from lakerunner_assets.decode.naming import MAX_COLUMNS
from resources.arrays import Int64s
from resources.lake.columns import CHQ_SERIES, CHQ_TID
from resources.lake.streams import Labels, canonical, labels_to_text, stream_id

NAME = "__name__"
_NEVER_LABELS = ("timestamp", "start", "metric_name", "value", "unit")
"""Roles whose leftovers (an unreadable time, a second name) must not make series of their own."""


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Columns that name the series of each row, weakest first, and the same as attributes of the point."""

    plain: list[tuple[str, pa.DictionaryArray]]
    objects: list[tuple[pa.DictionaryArray, dict[str, dict[str, str]]]]
    """JSON texts and the members of each."""
    attributes: list[tuple[Key, pa.Array]]


@dataclass(frozen=True, slots=True)
class Series:
    """Series of every point: an index into label sets and ids."""

    of_point: Int64s
    labels: tuple[Labels, ...]
    ids: tuple[int, ...]

    def columns(self) -> dict[str, pa.Array]:
        """Return the series id and the series text of every point."""
        ids = np.array(self.ids or (0,), np.int64)[self.of_point]
        texts = pa.array([labels_to_text(labels) for labels in self.labels], pa.string())
        codes = pa.array(self.of_point.astype(np.int32))
        return {CHQ_TID: pa.array(ids), CHQ_SERIES: pa.DictionaryArray.from_arrays(codes, texts)}


def label_columns(fields: Fields) -> LabelColumns:
    """Collect everything that no other role took."""
    found = LabelColumns([], [], [])
    labels = set(fields.roles["labels"])
    never = {key for role in _NEVER_LABELS for key in fields.roles[role]}
    prefixes = tuple(f"{name}_" for name in _label_names(fields))
    inner: list[tuple[str, pa.DictionaryArray]] = []
    for key, column in sorted(fields.rest(), key=lambda pair: pair[0]):
        name, kind = key
        left = column
        if key in labels and kind == "string":
            left = _objects(column, found)
        if left.null_count == len(left):
            continue
        prefix = next((p for p in prefixes if comparable(name).startswith(p)), None)
        if prefix is not None and len(name) > len(prefix):
            name = name[len(prefix) :]
            inner.append((name, with_dictionary(text_of(kind, left))))
        elif key not in never:
            found.plain.append((name, with_dictionary(text_of(kind, left))))
        found.attributes.append(((name, kind), left))
    found.plain.extend(inner)
    if fields.rows.overflow is not None:
        _add_overflow(fields.rows.overflow, found)
    return _merge(found)


def _add_overflow(overflow: pa.MapArray, found: LabelColumns) -> None:
    """Let keys beyond the column limit name series too; as attributes they stay in the map."""
    texts = with_dictionary(json_texts(overflow, Counter()))
    parsed = {text: _members(text) or {} for text in texts.dictionary.to_pylist()}
    found.objects.append((texts, parsed))


def _label_names(fields: Fields) -> tuple[str, ...]:
    """List the names of the labels role, whose nested members arrive flattened as `labels.host`."""
    return tuple(fields.names["labels"])


def _objects(column: pa.Array, found: LabelColumns) -> pa.Array:
    """Turn JSON objects into labels; return other text as an ordinary column."""
    texts = with_dictionary(column)
    words = texts.dictionary.to_pylist()
    parsed = {word: members for word in words if (members := _members(word)) is not None}
    if not parsed:
        return column
    is_object = np.array([word in parsed for word in words], np.bool_)
    codes = texts.indices.fill_null(0).to_numpy()
    objects = is_object[codes] & valid(column)
    found.objects.append((without(texts, ~objects), parsed))
    found.attributes.extend(_explode(words, parsed, codes, objects))
    return without(column, objects)


def _members(text: str) -> dict[str, str] | None:
    """Parse a JSON object into texts; None when it is none.

    >>> _members('{"a": "x", "n": 1.0, "ok": true, "no": null}'), _members("a=x")
    ({'a': 'x', 'n': '1.0', 'ok': 'true'}, None)
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        members = json.loads(text)
        return {_clean(key): _member_text(value) for key, value in members.items() if value is not None}
    except (ValueError, RecursionError):
        return None


def _member_text(value: object) -> str:
    return _clean(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )


def _clean(text: str) -> str:
    """Replace lone surrogates, which are no text."""
    return text.encode("utf-8", "replace").decode()


def _explode(
    words: list[str], parsed: Mapping[str, Mapping[str, str]], codes: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[Key, pa.Array]]:
    """Make a text column per member; members past the column limit are in the series only."""
    counts = Counter(name for members in parsed.values() for name in members)
    for name in sorted(counts, key=lambda each: (-counts[each], each))[:MAX_COLUMNS]:
        values = pa.array([parsed.get(word, {}).get(name) for word in words], pa.string())
        column = values.dictionary_encode().take(pa.array(codes, mask=~rows))
        yield (name, "string"), column


def _merge(found: LabelColumns) -> LabelColumns:
    """Merge columns of one name and kind: the later, stronger one wins where both have a value."""
    merged: dict[Key, pa.Array] = {}
    for key, column in found.attributes:
        merged[key] = _over(merged[key], column) if key in merged else column
    return LabelColumns(found.plain, found.objects, list(merged.items()))


def _over(below: pa.Array, above: pa.Array) -> pa.Array:
    """Merge two columns: the second wins where both have a value."""
    above, below = (
        with_dictionary(each) if pa.types.is_string(each.type) else each for each in (above, below)
    )
    both = pa.chunked_array([below, above]).unify_dictionaries().combine_chunks()
    rows = np.arange(len(above))
    return both.take(pa.array(np.where(valid(above), rows + len(above), rows)))


def series_of(
    found: LabelColumns, row_of_point: Int64s, name_of_point: pa.DictionaryArray, rows: int
) -> Series:
    """Name the series of every point."""
    names = [name for name, _ in found.plain]
    columns = [column for _, column in found.plain] + [column for column, _ in found.objects]
    code_of_row, values = combine(columns, rows)
    label_sets = [_labels(names, each, found) for each in values]
    row_codes = code_of_row[row_of_point].astype(np.int32)
    sets = pa.array([str(code) for code in range(len(label_sets))], pa.string())
    of_row = pa.DictionaryArray.from_arrays(pa.array(row_codes), sets)
    of_point, pairs = combine([of_row, name_of_point], len(row_of_point))
    known: dict[Labels, int] = {}
    series: list[int] = []
    for row, name in pairs:
        labels = canonical({**label_sets[int(row or 0)], NAME: name or ""})
        series.append(known.setdefault(labels, len(known)))
    codes = np.array(series or [0], np.int64)[of_point]
    return Series(codes, tuple(known), tuple(stream_id(labels) for labels in known))


def _labels(names: list[str], values: tuple[str | None, ...], found: LabelColumns) -> dict[str, str]:
    labels = {name: value for name, value in zip(names, values, strict=False) if value}
    for (_, parsed), text in zip(found.objects, values[len(names) :], strict=True):
        labels.update(parsed[text] if text is not None else {})
    return labels
