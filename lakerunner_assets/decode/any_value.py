"""The text of OTLP's AnyValue: OTel's string form.

Strings are themselves, numbers decimal, bytes base64, arrays and maps JSON with keys in sent order.
Scalars go through Arrow; structured values are rendered by the kernel of json_text.py, which also checks
their inner bytes, once per distinct value.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode import json_text
from lakerunner_assets.decode.distinct import distinct
from lakerunner_assets.decode.fields import ARRAY, BOOL, BYTES, DOUBLE, INT, KVLIST, STRING, Spans, Values
from lakerunner_assets.decode.json_text import rendered
from lakerunner_assets.decode.text import repaired, strings
from resources.arrays import Bytes, Int32s, Int64s


def texts(data: Bytes, values: Values, notes: Counter[str]) -> pa.StringArray:
    """The string form of every value, never null (an unset value is '')."""
    kinds = np.flatnonzero(np.bincount(values.kind, minlength=8))
    if len(kinds) <= 1:
        return texts_of_kind(data, int(kinds[0]) if len(kinds) else STRING, values, notes)
    parts = []
    place = np.empty(len(values.kind), np.int64)
    done = 0
    for kind in kinds:
        rows = np.flatnonzero(values.kind == kind)
        parts.append(texts_of_kind(data, int(kind), take_values(values, rows), notes))
        place[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    return pa.concat_arrays(parts).take(pa.array(place))


def texts_of_kind(data: Bytes, kind: int, values: Values, notes: Counter[str]) -> pa.StringArray:
    if kind == STRING:
        return strings(data, Spans(values.value, values.length), notes)
    if kind in {ARRAY, KVLIST, BYTES}:
        codes, unique = rendered_values(data, kind, Spans(values.value, values.length), notes)
        return unique.take(pa.array(codes))
    if kind == INT:
        return pa.array(values.value).cast(pa.string())
    if kind == BOOL:
        return pc.if_else(pa.array(values.value != 0), "true", "false")
    if kind == DOUBLE:
        return pa.array(
            [double_text(number) for number in values.value.view(np.float64).tolist()], pa.string()
        )
    return pa.array([""] * len(values.kind), pa.string())


def rendered_values(
    data: Bytes, kind: int, spans: Spans, notes: Counter[str]
) -> tuple[Int32s, pa.StringArray]:
    """Codes and texts of bytes, arrays or maps: each distinct value is rendered once."""
    codes, unique = distinct(data, spans)
    return codes, repaired(rendered(data, kind, unique), notes)


def take_values(values: Values, rows: Int64s) -> Values:
    return Values(values.kind[rows], values.value[rows], values.length[rows])


def double_text(number: float) -> str:
    """As in JSON, without the quotes that JSON needs around not-a-number and infinities."""
    return json_text.double_text(number).strip('"')
