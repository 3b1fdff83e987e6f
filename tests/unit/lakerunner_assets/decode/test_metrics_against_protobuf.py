"""The metrics decoder against the protobuf runtime: the same points, field by field, bit by bit."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.otlp.metrics import decode_metrics
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.signals.metrics import METRICS
from resources.lake.options import DecodeOptions
from tests.support.corpora import CORPORA
from tests.support.decode.metric_messages import REQUESTS, corpus_payloads, sample
from tests.support.decode.metric_oracle import assert_same, expected_rows


def decode_object(payload: bytes, slice_bytes: int) -> list[pa.Table]:
    request = Request("object", Place(5, 0, 1), DecodeOptions(), slice_bytes)
    with open_payload(payload, 1 << 30) as opened:
        return [decoded.table for decoded in decode(opened, request, METRICS.decoders())]


def decode_slice(payload: bytes) -> pa.Table:
    table = decode_metrics(payload, Place(5, 0, 1), DecodeOptions()).table
    table.validate(full=True)
    return table


@given(REQUESTS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_messages(payload: bytes) -> None:
    assert_same(payload, [decode_slice(payload)])


def test_the_sample_has_every_kind() -> None:
    payload = sample().SerializeToString()
    assert {row["chq_metric_type"] for row in expected_rows(payload)} == {
        "gauge",
        "sum",
        "histogram",
        "exponential_histogram",
        "summary",
    }
    assert assert_same(payload, [decode_slice(payload)]) == 20


@given(REQUESTS, st.integers(1, 400))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_slicing_changes_nothing(payload: bytes, slice_bytes: int) -> None:
    if payload:
        assert_same(payload, decode_object(payload, slice_bytes))


@pytest.mark.parametrize("slice_bytes", [1, 700, 1 << 20])
def test_slicing_the_sample_changes_nothing(slice_bytes: int) -> None:
    payload = sample(5).SerializeToString()
    tables = decode_object(payload, slice_bytes)
    assert assert_same(payload, tables) == 50
    assert (len(tables) > 1) == (slice_bytes < len(payload))


def test_every_metrics_file_of_the_corpora() -> None:
    folder = CORPORA / "otlp"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not on this machine; the project's own messages were run")
    total = sum(assert_same(payload, [decode_slice(payload)]) for payload in corpus_payloads(folder))
    assert total > 3000
