"""The frame that all three signals share: request → resources → scopes → records.

    ExportLogsServiceRequest    { 1: ResourceLogs    { 1: Resource, 2: ScopeLogs    { 1: scope, 2: LogRecord, 3: url }, 3: url } }
    ExportMetricsServiceRequest { 1: ResourceMetrics { 1: Resource, 2: ScopeMetrics { 1: scope, 2: Metric,    3: url }, 3: url } }
    ExportTraceServiceRequest   { 1: ResourceSpans   { 1: Resource, 2: ScopeSpans   { 1: scope, 2: Span,      3: url }, 3: url } }

The numbers are the same, so one walk finds where the records of any of them lie.
"""  # noqa: E501

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_assets.decode.field_kernels import Matrix, Spans
from lakerunner_assets.decode.memory_kernels import fetch_ahead
from lakerunner_assets.decode.wire_kernels import read_length, read_tag, skip_field
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

MESSAGE, SCHEMA_URL, PARENT = 0, 2, 4
"""Columns of the group matrices: the Resource or scope message, the schema URL, the scope's resource."""
GROUP_WIDTH = 5
MAX_SLICE_BYTES = 2**30
"""Arrow's string offsets are 32 bits wide."""

RESOURCES, SCOPES, RECORDS = range(3)
FIRST_LINE, LAST_LINE = 4, 16
"""Cache lines behind a record that are asked for while it is walked over."""


class Groups(NamedTuple):
    """One slice: a row per resource and per scope, and the records with the scope each belongs to."""

    resources: Matrix
    scopes: Matrix
    records: Spans
    scope_of_record: Int64s


@scanner
def next_group(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer, Integer]:
    """(start, end, position behind) of the next ResourceLogs, …Metrics or …Spans; start -1 at the end."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return np.int64(-1), np.int64(-1), position
        if tag == 10:
            length, position = read_length(data, position, end)
            if position < 0:
                return np.int64(-1), np.int64(-1), position
            return position, position + length, position + length
        position = skip_field(data, position, end, tag)
        if position < 0:
            return np.int64(-1), np.int64(-1), position
    return np.int64(-1), np.int64(-1), position


@scanner
def walk(
    data: Bytes, position: Integer, end: Integer, counts: Int64s, groups: Groups, filling: bool
) -> Integer:
    """Count resources, scopes and records, or fill `groups` that was sized by that; the end or a fault."""
    while True:
        inner, stop, position = next_group(data, position, end)
        if inner < 0:
            return position
        resource = counts[RESOURCES]
        counts[RESOURCES] += 1
        while inner < stop:
            tag, inner = read_tag(data, inner, stop)
            if inner < 0:
                return inner
            if tag not in (10, 18, 26):
                inner = skip_field(data, inner, stop, tag)
                if inner < 0:
                    return inner
                continue
            length, inner = read_length(data, inner, stop)
            if inner < 0:
                return inner
            if tag == 18:
                if filling:
                    groups.scopes[counts[SCOPES], PARENT] = resource
                failed = walk_scope(data, inner, inner + length, counts, groups, filling)
                if failed < 0:
                    return failed
            elif filling:
                field = MESSAGE if tag == 10 else SCHEMA_URL
                groups.resources[resource, field] = inner
                groups.resources[resource, field + 1] = length
            inner += length


@scanner
def walk_scope(
    data: Bytes, position: Integer, end: Integer, counts: Int64s, groups: Groups, filling: bool
) -> Integer:
    scope = counts[SCOPES]
    counts[SCOPES] += 1
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag not in (10, 18, 26):
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        if tag == 18:
            for line in range(FIRST_LINE, LAST_LINE):  # skipping from length to length, nothing else would
                fetch_ahead(data, position + length + line * 64)
            if filling:
                record = counts[RECORDS]
                groups.records.start[record] = position
                groups.records.length[record] = length
                groups.scope_of_record[record] = scope
            counts[RECORDS] += 1
        elif filling:
            field = MESSAGE if tag == 10 else SCHEMA_URL
            groups.scopes[scope, field] = position
            groups.scopes[scope, field + 1] = length
        position += length
    return position


@scanner
def count_attributes(data: Bytes, records: Spans, attribute_tag: Integer) -> tuple[Integer, Integer]:
    """How many fields `attribute_tag` the messages at `records` have; checks that all their fields fit."""
    count = 0
    for index in range(len(records.start)):
        position: Integer = records.start[index]
        end = position + records.length[index]
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return count, position
            if tag == attribute_tag:
                count += 1
            position = skip_field(data, position, end, tag)
            if position < 0:
                return count, position
    return count, np.int64(0)
