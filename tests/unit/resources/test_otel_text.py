"""The string form of a value is the same whether ingest writes it or a query renders it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from lakerunner_assets.decode.any_value import texts
from lakerunner_assets.decode.field_kernels import ARRAY, BOOL, BYTES, DOUBLE, INT, KVLIST, STRING, Values
from lakerunner_query.worker.logs.labels import texts_of
from resources.otel_text import double_text, go_double, value_text

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(2**63), 2**63 - 1)
plain = st.none() | st.booleans() | integers | words | st.binary(max_size=8)
structures = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=8
).filter(lambda value: isinstance(value, list | dict))


def any_value(value: Any) -> AnyValue:
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=map(any_value, value)))
    if isinstance(value, dict):
        pairs = [KeyValue(key=key, value=any_value(inner)) for key, inner in value.items()]
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    fields = {bool: "bool_value", int: "int_value", str: "string_value", bytes: "bytes_value"}
    return AnyValue() if value is None else AnyValue(**{fields[type(value)]: value})


def ingested(value: Any) -> str:
    """Return what the decoder of OTLP makes of a value."""
    kinds = {bool: BOOL, int: INT, float: DOUBLE, str: STRING, bytes: BYTES, list: ARRAY, dict: KVLIST}
    kind, raw, number = kinds[type(value)], b"", 0
    if isinstance(value, list | dict):
        sent = any_value(value)
        raw = (sent.array_value if isinstance(value, list) else sent.kvlist_value).SerializeToString()
    elif isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
    else:
        number = int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value)
    values = Values(np.array([kind], np.uint8), np.array([number], np.int64), np.array([len(raw)], np.int32))
    (text,) = texts(np.frombuffer(raw, np.uint8), values, Counter()).to_pylist()
    return str(text)


@given(plain.filter(lambda value: value is not None) | structures)
def test_ingest_and_query_spell_alike(value: Any) -> None:
    assert value_text(value) == value_text(value, go_double) == ingested(value)


@given(st.floats())
def test_a_double_of_a_segment_reads_back_and_a_query_shows_gos_form(value: float) -> None:
    assert ingested(value) == double_text(value) == value_text(value)
    assert texts_of(pa.array([value])).to_pylist() == [go_double(value)]
    if math.isfinite(value):
        assert float(double_text(value)) == float(go_double(value)) == value
