"""OTLP data points are assigned to series: name, series id, label set.

Points are coded by their metric, resource, scope and *run*, the bytes of their key-values: a producer sends
the points of a series with the same attributes in the same bytes. Labels are made once per distinct
combination, and runs are read once each, whatever the number of points. Where other fields lie between the
attributes of a point, its run is put together behind the payload first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.errors import raise_fault
from lakerunner_assets.decode.field_kernels import Attributes, Matrix, Spans
from lakerunner_assets.decode.metric_naming import naming, unit_name
from lakerunner_assets.decode.otlp import groups_kernels as grouping
from lakerunner_assets.decode.otlp import scan_metrics_kernels as scan
from lakerunner_assets.decode.otlp.groups_kernels import Groups
from lakerunner_assets.decode.otlp.metric_labels import SeriesTable, Side
from lakerunner_assets.decode.otlp.owners import RESOURCE_TAGS, SCOPE_TAGS, OwnerMessages, Owners
from lakerunner_assets.decode.otlp.scan_metrics_kernels import (
    GAPS,
    KIND,
    RUN,
    RUN_LENGTH,
    join_runs,
    read_runs,
)
from lakerunner_assets.decode.slice_kernels import code_slices, distinct
from lakerunner_assets.decode.text import encode_strings, strings
from resources.arrays import Bytes, Int64s
from resources.lake.columns import CHQ_SERIES, CHQ_TID
from resources.lake.options import DecodeOptions


@dataclass(frozen=True, slots=True)
class Runs:
    """Distinct runs of a slice in order of first appearance."""

    data: Bytes
    """Bytes that positions of keys and values refer to: the payload, perhaps with joined runs behind it."""
    of_point: Int64s
    count: int
    attributes: Attributes
    """Attributes, owned by runs."""


def attribute_runs(data: Bytes, points: Matrix, metric_of_point: Int64s, metrics: Matrix) -> Runs:
    """Read the attributes of all points."""
    data, spans = _whole_runs(data, points, metric_of_point, metrics)
    of_point, runs = distinct(data, spans)
    count = len(runs.start)
    first = np.zeros(count, np.int64)
    first[of_point[::-1]] = np.arange(len(points) - 1, -1, -1)
    attributes = fields.matrix(int(points[first, scan.ATTRIBUTES].sum()), fields.ATTRIBUTE_WIDTH)
    raise_fault(read_runs(data, runs, attributes))
    return Runs(data, of_point.astype(np.int64), count, fields.attributes_of(attributes))


def _whole_runs(data: Bytes, points: Matrix, metric_of_point: Int64s, metrics: Matrix) -> tuple[Bytes, Spans]:
    """Join runs with gaps. Faults cannot happen here, since the scan went over all these fields."""
    rows = np.flatnonzero(points[:, GAPS])
    if len(rows) == 0:
        return data, fields.spans_of(points, RUN)
    points = points.copy()
    joined = np.concatenate((data, np.zeros(int(points[rows, RUN_LENGTH].sum()), np.uint8)))
    join_runs(joined, len(data), rows, metrics[metric_of_point, KIND], points)
    return joined, fields.spans_of(points, RUN)


METRIC_TYPES = {
    scan.GAUGE: "gauge",
    scan.SUM: "sum",
    scan.HISTOGRAM: "histogram",
    scan.EXPONENTIAL: "exponential_histogram",
    scan.SUMMARY: "summary",
}
KeyValues = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Attributes as text: every distinct key and value once, and which of them each owner has."""

    distinct: KeyValues
    of_owner: list[list[int]]


@dataclass(frozen=True, slots=True)
class Families:
    """Distinct combinations of name, unit, type and monotony."""

    of_metric: Int64s
    sent: list[str]
    names: list[str]
    """Translated names."""
    sides: list[Side]


def identity_columns(
    data: Bytes,
    metrics: Matrix,
    groups: Groups,
    metric_of_point: Int64s,
    runs: Runs,
    owned: Owners,
    options: DecodeOptions,
) -> dict[str, pa.Array]:
    """Return the columns, and `metric_original_name` where the name was translated."""
    table = SeriesTable(naming(options.metric_naming).label, options.type_and_unit_labels)
    families = _families(data, metrics, table, options)
    owner_of_metric, owners = _owners(data, groups, owned, table)
    own = _own(runs, table)

    base_of_metric, _ = code_numbers(families.of_metric * len(owners) + owner_of_metric)
    series_of_point, first = code_numbers(base_of_metric[metric_of_point] * runs.count + runs.of_point)
    metric = metric_of_point[first]
    codes = [
        table.add(own[run], owners[owner], families.sides[family])
        for run, owner, family in zip(
            runs.of_point[first].tolist(),
            owner_of_metric[metric].tolist(),
            families.of_metric[metric].tolist(),
            strict=True,
        )
    ]
    of_point = np.array(codes, np.int32)[series_of_point]
    family_of_point = families.of_metric[metric_of_point]
    changed = [
        sent if sent != name else None for sent, name in zip(families.sent, families.names, strict=True)
    ]
    return {
        "metric_name": _encode(families.names, family_of_point),
        "metric_original_name": _encode(changed, family_of_point),
        CHQ_TID: pa.array(np.array(table.ids, np.int64)[of_point]),
        CHQ_SERIES: pa.DictionaryArray.from_arrays(pa.array(of_point), pa.array(table.texts, pa.string())),
    }


def code_numbers(values: Int64s) -> tuple[Int64s, Int64s]:
    """Code values in order of first appearance; return the index of each first appearance too."""
    count = len(values)
    places = Spans(np.arange(count, dtype=np.int64) * 8, np.full(count, 8, np.int32))
    codes, first = code_slices(np.ascontiguousarray(values).view(np.uint8), places, 1 << 31)
    return codes.astype(np.int64), first


def _families(data: Bytes, metrics: Matrix, table: SeriesTable, options: DecodeOptions) -> Families:
    notes: Counter[str] = Counter()  # counted where the sent name and unit become columns
    names = encode_strings(data, fields.spans_of(metrics, scan.NAME), notes)
    units = encode_strings(data, fields.spans_of(metrics, scan.UNIT), notes)
    kinds = metrics[:, scan.KIND] * 2 + metrics[:, scan.MONOTONIC]
    name_codes, unit_codes = (each.indices.to_numpy().astype(np.int64) for each in (names, units))
    of_metric, first = code_numbers((name_codes * len(units.dictionary) + unit_codes) * 32 + kinds)
    translate = naming(options.metric_naming).metric
    found = Families(of_metric, [], [], [])
    for row in first.tolist():
        kind, monotonic = divmod(int(kinds[row]), 2)
        sent, unit, metric_type = names[row].as_py(), units[row].as_py(), METRIC_TYPES.get(kind, "")
        name = translate(sent, unit, metric_type, bool(monotonic))
        found.sent.append(sent)
        found.names.append(name)
        found.sides.append(table.family(name, prometheus_type(metric_type, bool(monotonic)), unit_name(unit)))
    return found


def prometheus_type(metric_type: str, monotonic: bool) -> str:
    """Return the value of `__type__`."""
    if metric_type == "sum":
        return "counter" if monotonic else "gauge"
    return metric_type.removeprefix("exponential_")


def _owners(data: Bytes, groups: Groups, owned: Owners, table: SeriesTable) -> tuple[Int64s, list[Side]]:
    """Return the combination of resource and scope of every metric, and the labels of each."""
    notes: Counter[str] = Counter()  # owners.py counted them
    urls, url_spans = distinct(data, fields.spans_of(groups.scopes, grouping.SCHEMA_URL))
    resource_of_scope = owned.resources.of_group[groups.scopes[:, grouping.PARENT]]
    scope_codes = owned.scopes.of_group
    of_scope, _ = code_numbers(resource_of_scope * max(1, len(owned.scopes.fields)) + scope_codes)
    of_scope, first = code_numbers(of_scope * max(1, len(url_spans.start)) + urls)
    resources = _owned_key_values(data, groups.resources, owned.resources, RESOURCE_TAGS[2])
    scopes = _owned_key_values(data, groups.scopes, owned.scopes, SCOPE_TAGS[2])
    names = strings(data, fields.spans_of(owned.scopes.fields, fields.NAME), notes).to_pylist()
    versions = strings(data, fields.spans_of(owned.scopes.fields, fields.VERSION), notes).to_pylist()
    known_urls = strings(data, url_spans, notes).to_pylist()
    sides: list[Side] = []
    for row in first.tolist():
        scope = int(scope_codes[row])
        about = {"name": names[scope], "version": versions[scope], "schema_url": known_urls[urls[row]]}
        sides.append(table.owner(resources[int(resource_of_scope[row])], scopes[scope], about))
    return of_scope[groups.scope_of_record], sides


def _owned_key_values(data: Bytes, groups: Matrix, owned: OwnerMessages, tag: int) -> list[KeyValues]:
    """Read the attributes of every distinct resource or scope message."""
    count = len(owned.fields)
    first = np.zeros(count, np.int64)
    first[owned.of_group[::-1]] = np.arange(len(groups) - 1, -1, -1)
    messages = fields.spans_of(groups[first], grouping.MESSAGE)
    size, failed = fields.count_owned(data, messages, tag)
    raise_fault(failed)
    rows = fields.matrix(count, fields.OWNER_WIDTH)
    attributes = fields.matrix(int(size), fields.ATTRIBUTE_WIDTH)
    raise_fault(fields.fill_owned(data, messages, (-1, -1, tag, -1), rows, attributes))
    return _key_values(data, fields.attributes_of(attributes), count)


def _own(runs: Runs, table: SeriesTable) -> list[Side]:
    """Make the labels of every distinct run of attributes."""
    pairs = _pairs(runs.data, runs.attributes, runs.count)
    known = [table.attribute(key, value) for key, value in pairs.distinct]
    return [table.own([known[code] for code in codes]) for codes in pairs.of_owner]


def _key_values(data: Bytes, attributes: Attributes, owners: int) -> list[KeyValues]:
    """List (key, value as text) of every owner, in sent order."""
    pairs = _pairs(data, attributes, owners)
    return [[pairs.distinct[code] for code in codes] for codes in pairs.of_owner]


def _pairs(data: Bytes, attributes: Attributes, owners: int) -> Pairs:
    notes: Counter[str] = Counter()  # counted where they become columns
    key_codes, spans = distinct(data, attributes.key)
    keys = strings(data, spans, notes)
    values = texts(data, attributes.values, notes).dictionary_encode()
    value_codes = values.indices.to_numpy()
    codes, first = code_numbers(key_codes.astype(np.int64) * max(1, len(values.dictionary)) + value_codes)
    known_keys = keys.take(pa.array(key_codes[first])).to_pylist()
    known_values = values.dictionary.take(pa.array(value_codes[first])).to_pylist()
    bounds = np.searchsorted(attributes.owner, np.arange(owners + 1)).tolist()
    listed = codes.tolist()
    return Pairs(
        list(zip(known_keys, known_values, strict=True)),
        [listed[start:end] for start, end in pairwise(bounds)],
    )


def _encode(words: Sequence[str | None], of_point: Int64s) -> pa.DictionaryArray:
    """Return a dictionary array with every word once: two families may have one name."""
    encoded = pa.array(words, pa.string()).dictionary_encode()
    return encoded.take(pa.array(of_point))
