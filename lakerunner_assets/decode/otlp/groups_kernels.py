"""All three signals share one frame: request → resources → scopes → records.

    ExportLogsServiceRequest    { 1: ResourceLogs    { 1: Resource, 2: ScopeLogs    { 1: scope, 2: LogRecord, 3: url }, 3: url } }
    ExportMetricsServiceRequest { 1: ResourceMetrics { 1: Resource, 2: ScopeMetrics { 1: scope, 2: Metric,    3: url }, 3: url } }
    ExportTraceServiceRequest   { 1: ResourceSpans   { 1: Resource, 2: ScopeSpans   { 1: scope, 2: Span,      3: url }, 3: url } }

The numbers are the same, so one walk finds the records of any of them. `benchmarks.kernels.decode` measures it
as part of the scans of logs, metrics and traces.
"""  # noqa: E501

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_assets.decode.field_kernels import Matrix, Spans
from lakerunner_assets.decode.memory_kernels import fetch_ahead
from lakerunner_assets.decode.wire_kernels import LENGTH, read_length, read_tag, skip_field, tag_of
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

MESSAGE, SCHEMA_URL, PARENT = 0, 2, 4
"""Columns of the group matrices: the Resource or scope message, the schema URL, the scope's resource."""
GROUP_WIDTH = 5
MAX_SLICE_BYTES = 2**30
"""Bytes of a message at most: Arrow's string offsets are 32 bits wide."""

OWNER_TAG, RECORD_TAG, SCHEMA_URL_TAG = (tag_of(number, LENGTH) for number in (1, 2, 3))
"""Tags in a group: its resource or scope, its scopes or records, its schema URL."""
GROUP_TAG = OWNER_TAG

RESOURCES, SCOPES, RECORDS = range(3)
FIRST_LINE, LAST_LINE = 4, 16
"""Cache lines behind a record that are prefetched while it is walked over."""


class Groups(NamedTuple):
    """Groups of a slice: a row per resource and per scope, and the records with the scope of each."""

    resources: Matrix
    scopes: Matrix
    records: Spans
    scope_of_record: Int64s


@scanner
def next_group(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer, Integer]:
    """Return (start, end, position behind) of the next resource group; start -1 at the end."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return np.int64(-1), np.int64(-1), position
        if tag == GROUP_TAG:
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
    """Count resources, scopes and records, or fill `groups` sized by that; return the end or a fault."""
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
            if tag not in (OWNER_TAG, RECORD_TAG, SCHEMA_URL_TAG):
                inner = skip_field(data, inner, stop, tag)
                if inner < 0:
                    return inner
                continue
            length, inner = read_length(data, inner, stop)
            if inner < 0:
                return inner
            if tag == RECORD_TAG:
                if filling:
                    groups.scopes[counts[SCOPES], PARENT] = resource
                failed = walk_scope(data, inner, inner + length, counts, groups, filling)
                if failed < 0:
                    return failed
            elif filling:
                field = MESSAGE if tag == OWNER_TAG else SCHEMA_URL
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
        if tag not in (OWNER_TAG, RECORD_TAG, SCHEMA_URL_TAG):
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            continue
        length, position = read_length(data, position, end)
        if position < 0:
            return position
        if tag == RECORD_TAG:
            for line in range(FIRST_LINE, LAST_LINE):  # skipping from length to length, nothing else would
                fetch_ahead(data, position + length + line * 64)
            if filling:
                record = counts[RECORDS]
                groups.records.start[record] = position
                groups.records.length[record] = length
                groups.scope_of_record[record] = scope
            counts[RECORDS] += 1
        elif filling:
            field = MESSAGE if tag == OWNER_TAG else SCHEMA_URL
            groups.scopes[scope, field] = position
            groups.scopes[scope, field + 1] = length
        position += length
    return position
