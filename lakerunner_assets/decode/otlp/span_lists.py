"""Events and links of spans as list columns.

    span_events  list<struct<tsns, name, dropped, attributes>>
    span_links   list<struct<trace_id, span_id, trace_state, flags, dropped, attributes>>
    attributes   list<struct<key, kind, value>>

An attribute keeps its OTLP kind beside the text of its value (OTel's string form), so that `200` the number
and `"200"` the text stay apart and repeated keys stay in their order. A map of text could hold neither, and
flat columns are no choice here, since the keys of one span's five events would need five of each.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode import fields
from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.fields import KINDS, OWNER, Matrix
from lakerunner_assets.decode.otlp import scan_traces as scan
from lakerunner_assets.decode.otlp.owners import ids, nullable, time_in_range
from lakerunner_assets.decode.text import strings, strings_at
from resources.arrays import Bytes


def _list_of(*members: pa.Field) -> pa.ListType:
    # called as in Parquet, so that a segment read back has this very type
    return pa.list_(pa.field("element", pa.struct(members)))


ATTRIBUTES = _list_of(
    pa.field("key", pa.string()), pa.field("kind", pa.string()), pa.field("value", pa.string())
)
EVENTS = _list_of(
    pa.field("tsns", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("dropped", pa.int64()),
    pa.field("attributes", ATTRIBUTES),
)
LINKS = _list_of(
    pa.field("trace_id", pa.binary(16)),
    pa.field("span_id", pa.binary(8)),
    pa.field("trace_state", pa.string()),
    pa.field("flags", pa.int64()),
    pa.field("dropped", pa.int64()),
    pa.field("attributes", ATTRIBUTES),
)


def event_lists(data: Bytes, found: scan.Found, notes: Counter[str]) -> pa.ListArray:
    """`span_events` of every span, empty where it has none."""
    events = found.events
    time = fields.column(events, scan.EVENT_TIME)
    members = [
        nullable(time_in_range(time, notes), time == 0),
        strings(data, fields.spans_of(events, scan.EVENT_NAME), notes),
        pa.array(fields.column(events, scan.EVENT_DROPPED)),
        attribute_lists(data, found.event_attributes, len(events), notes),
    ]
    return _lists(EVENTS, events, members, len(found.spans))


def link_lists(data: Bytes, found: scan.Found, notes: Counter[str]) -> pa.ListArray:
    """`span_links` of every span; ids that are none are null, as those of spans are."""
    links = found.links
    states = fields.spans_of(links, scan.LINK_STATE)
    present = np.flatnonzero(states.length)
    members = [
        ids(data, fields.spans_of(links, scan.LINK_TRACE_ID), 16, "invalid_link_trace_id", notes),
        ids(data, fields.spans_of(links, scan.LINK_SPAN_ID), 8, "invalid_link_span_id", notes),
        strings_at(
            data, fields.Spans(states.start[present], states.length[present]), present, len(links), notes
        ),
        pa.array(fields.column(links, scan.LINK_FLAGS)),
        pa.array(fields.column(links, scan.LINK_DROPPED)),
        attribute_lists(data, found.link_attributes, len(links), notes),
    ]
    return _lists(LINKS, links, members, len(found.spans))


def attribute_lists(data: Bytes, rows: Matrix, owner_count: int, notes: Counter[str]) -> pa.ListArray:
    """The attributes of every owner, as sent."""
    attributes = fields.attributes_of(rows)
    members = [
        strings(data, attributes.key, notes),
        pa.array(KINDS).take(pa.array(attributes.values.kind)),
        texts(data, attributes.values, notes),
    ]
    return _lists(ATTRIBUTES, rows, members, owner_count)


def _lists(kind: pa.ListType, rows: Matrix, members: list[pa.Array], owner_count: int) -> pa.ListArray:
    """Rows of one owner lie together and owners ascend, so counting them gives the offsets."""
    offsets = np.zeros(owner_count + 1, np.int32)
    np.cumsum(np.bincount(rows[:, OWNER], minlength=owner_count), out=offsets[1:])
    structs = pa.StructArray.from_arrays(members, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind)
