"""Resources and scopes become columns of the records that belong to them.

Every distinct Resource or scope message is read once, however many groups repeat it. The table of all columns
is assembled here as well, for decoders of any format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import field_kernels as fields
from lakerunner_assets.decode.attributes import AttributeColumns, attribute_columns, take_columns
from lakerunner_assets.decode.errors import MalformedError, TooLargeError, raise_fault
from lakerunner_assets.decode.field_kernels import Matrix, Spans, matrix
from lakerunner_assets.decode.naming import Attribute, assign
from lakerunner_assets.decode.otlp import groups_kernels as grouping
from lakerunner_assets.decode.otlp.groups_kernels import GROUP_WIDTH, MAX_SLICE_BYTES, Groups, walk
from lakerunner_assets.decode.slice_kernels import distinct
from lakerunner_assets.decode.text import encode_strings
from lakerunner_assets.decode.wire_kernels import LENGTH, VARINT, tag_of
from resources.arrays import Bytes, Int32s, Int64s
from resources.lake.columns import CHQ_RESOURCE_DROPPED_ATTRIBUTES, CHQ_SCOPE_DROPPED_ATTRIBUTES
from resources.lake.segment_file import OVERFLOW_COLUMNS

LAST_NS = 2**63 - 1
RESOURCE_TAGS = (-1, -1, tag_of(1, LENGTH), tag_of(2, VARINT))
SCOPE_TAGS = (tag_of(1, LENGTH), tag_of(2, LENGTH), tag_of(3, LENGTH), tag_of(4, VARINT))
"""Wire tags of name, version, attributes and dropped count in a Resource and in an InstrumentationScope."""

FlatColumn = tuple[str, Attribute | None, pa.Array]
"""(scope, attribute, values); no attribute: the scope's overflow map."""


@dataclass(frozen=True, slots=True)
class OwnerMessages:
    """Distinct resource or scope messages of a slice, and which of them each row belongs to."""

    fields: Matrix
    attributes: AttributeColumns
    of_group: Int64s
    """Distinct message of every ResourceLogs / ScopeLogs."""
    of_row: Int64s

    def flat(self, scope: str) -> list[FlatColumn]:
        return [(scope, *pair) for pair in take_columns(self.attributes, self.of_row.astype(np.int32))]

    def dropped(self) -> pa.Array:
        return pa.array(row_of(fields.column(self.fields, fields.OWNER_DROPPED), self.of_row))


@dataclass(frozen=True, slots=True)
class Owners:
    """Both owners of the rows of a slice, and their plain columns."""

    resources: OwnerMessages
    scopes: OwnerMessages
    columns: dict[str, pa.Array]

    def flat(self) -> list[FlatColumn]:
        return [*self.resources.flat("resource"), *self.scopes.flat("scope")]


def owners(data: Bytes, groups: Groups, scope_of_row: Int64s, notes: Counter[str]) -> Owners:
    """Read the owners of rows; `scope_of_row` is each row's index in `groups.scopes`."""
    resource_of_row = row_of(groups.scopes[:, grouping.PARENT], scope_of_row)
    resources = _read_owned(data, groups.resources, RESOURCE_TAGS, "resource", resource_of_row, notes)
    scopes = _read_owned(data, groups.scopes, SCOPE_TAGS, "scope", scope_of_row, notes)
    columns = {
        CHQ_RESOURCE_DROPPED_ATTRIBUTES: resources.dropped(),
        CHQ_SCOPE_DROPPED_ATTRIBUTES: scopes.dropped(),
        "scope_name": owner_text(data, scopes.fields, fields.NAME, scopes.of_row, notes),
        "scope_version": owner_text(data, scopes.fields, fields.VERSION, scopes.of_row, notes),
        "scope_schema_url": owner_text(data, groups.scopes, grouping.SCHEMA_URL, scope_of_row, notes),
        "resource_schema_url": owner_text(
            data, groups.resources, grouping.SCHEMA_URL, resource_of_row, notes
        ),
    }
    return Owners(resources, scopes, columns)


def assemble(columns: Mapping[str, pa.Array], flat: Sequence[FlatColumn]) -> pa.Table:
    """Build the table: system columns, then a column per attribute under a name of its own."""
    names = assign(attribute for _, attribute, _ in flat if attribute is not None)
    schema = [pa.field(name, column.type) for name, column in columns.items()]
    arrays = list(columns.values())
    for scope, attribute, column in flat:
        schema.append(
            pa.field(OVERFLOW_COLUMNS[scope], column.type)
            if attribute is None
            else attribute.field(names[attribute], column.type)
        )
        arrays.append(column)
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def ids(data: Bytes, spans: Spans, width: int, note: str, notes: Counter[str]) -> pa.Array:
    """Return fixed-width ids; an empty, all-zero or misshapen one is null, the last kind counted under
    `note`.
    """
    found, missing, wrong = fields.copy_ids(data, spans, width)
    if wrong:
        notes[note] += int(wrong)
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(pa.binary(width), len(missing), [validity, pa.py_buffer(found)])


def time_in_range(time: Int64s, notes: Counter[str]) -> Int64s:
    """Clip OTLP's unsigned times past 2262 to the last instant that fits, for the quarantine."""
    beyond = time < 0
    if not beyond.any():
        return time
    notes["time_after_2262"] += int(beyond.sum())
    return np.where(beyond, np.int64(LAST_NS), time)


def nullable(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def without_empty(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Replace '' by null: an unset text field of OTLP reads as ''."""
    words = column.dictionary.to_pylist()
    if "" not in words:
        return column
    codes = column.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == words.index("")), column.dictionary)


def owner_text(
    data: Bytes, rows: Matrix, field: int, of_row: Int64s, notes: Counter[str]
) -> pa.DictionaryArray:
    """Spread the text in column `field` of group or owner rows over the table's rows."""
    texts = encode_strings(data, fields.spans_of(rows, field), notes)
    return without_empty(texts.take(pa.array(of_row)))


def _read_owned(
    data: Bytes,
    groups: Matrix,
    tags: tuple[int, int, int, int],
    scope: str,
    group_of_row: Int64s,
    notes: Counter[str],
) -> OwnerMessages:
    codes, messages = distinct(data, fields.spans_of(groups, grouping.MESSAGE))
    count, failed = fields.count_owned(data, messages, tags[2])
    raise_fault(failed)
    rows = fields.matrix(len(messages.start), fields.OWNER_WIDTH)
    attributes = fields.matrix(int(count), fields.ATTRIBUTE_WIDTH)
    raise_fault(fields.fill_owned(data, messages, tags, rows, attributes))
    columns = attribute_columns(data, fields.attributes_of(attributes), len(rows), scope, notes)
    return OwnerMessages(rows, columns, codes.astype(np.int64), row_of(codes, group_of_row))


def find_groups(data: Bytes, start: int, end: int) -> Groups:
    """Find the groups of the request in `data[start:end]`."""
    if not 0 <= start <= end <= len(data):
        raise MalformedError(start, f"slice [{start}, {end}) does not lie in {len(data)} bytes")
    if end - start > MAX_SLICE_BYTES:
        raise TooLargeError(start, f"one message of {end - start} bytes: the limit is {MAX_SLICE_BYTES}")
    counts = np.zeros(3, np.int64)
    nowhere = Groups(matrix(0, GROUP_WIDTH), matrix(0, GROUP_WIDTH), _spans(0), np.zeros(0, np.int64))
    raise_fault(walk(data, start, end, counts, nowhere, False))
    resources, scopes, records = counts.tolist()
    groups = Groups(
        matrix(resources, GROUP_WIDTH),
        matrix(scopes, GROUP_WIDTH),
        _spans(records),
        np.zeros(records, np.int64),
    )
    raise_fault(walk(data, start, end, np.zeros(3, np.int64), groups, True))
    return groups


def _spans(rows: int) -> Spans:
    return Spans(np.zeros(rows, np.int64), np.zeros(rows, np.int32))


def row_of(codes: Int32s | Int64s, rows: Int32s | Int64s) -> Int64s:
    """Return `codes[rows]`, also when both are empty."""
    return codes[rows].astype(np.int64) if len(rows) else np.zeros(0, np.int64)
