"""Bytes that are no sketch of ours are refused and named, and never crash anything."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.lake.ddsketch import SketchError, merged_quantiles
from tests.support.rollup.ddsketch_oracle import DDSketch, magnitudes, merged, of_values, sketch_message


def foreign(**mapping: float) -> bytes:
    message = sketch_message(positiveValues={1: 1.0})
    for name, value in mapping.items():
        setattr(message.mapping, name, value)
    raw: bytes = message.SerializeToString()
    return raw


SOUND = sketch_message(positiveValues={1: 1.0}).SerializeToString()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "index mapping expected"),
        (foreign(gamma=1.02), "another index mapping"),
        (foreign(indexOffset=1.0), "another index mapping"),
        (foreign(interpolation=3), "another index mapping"),
        (b"\x0a\x00", "another index mapping"),
        (SOUND + b"\x28\x01", "unknown"),
        (SOUND + SOUND, "repeated"),
        (SOUND + b"\x22\x00", "another type"),
        (SOUND[:-1], "runs past the end"),
        (SOUND + b"\x21\x00", "cut short"),
        (SOUND + b"\x1a\xff\xff\xff\xff\xff\x01", "varint longer"),
        (SOUND + b"\x1a\x03\x12\x01\x00", "multiple of 8"),
        (sketch_message(positiveValues={35501: 1.0}).SerializeToString(), "index beyond"),
        (sketch_message(negativeValues={-(2**31): 1.0}).SerializeToString(), "index beyond"),
        (sketch_message(positiveValues=(35500, [1, 1])).SerializeToString(), "index beyond"),
        (sketch_message(negativeValues=(-35501, [1, 1])).SerializeToString(), "index beyond"),
        (sketch_message(positiveValues={1: -1.0}).SerializeToString(), "not negative"),
        (sketch_message(positiveValues=(1, [1.0, math.nan])).SerializeToString(), "finite"),
        (sketch_message(zeroCount=math.inf).SerializeToString(), "finite"),
    ],
)
def test_bytes_that_are_no_sketch_of_ours_are_named(raw: bytes, reason: str) -> None:
    good = of_values([1.0])
    with pytest.raises(SketchError, match=f"sketch 1 of {len(raw)} bytes, at byte .*{reason}"):
        merged([good, raw, good])  # type: ignore[list-item]
    with pytest.raises(SketchError, match=f"sketch 2 of {len(raw)} bytes"):
        merged_quantiles(pa.array([good, None, raw], pa.binary()), np.array([5, 0, 3]), 6, [0.5])


@settings(max_examples=100)
@given(st.lists(magnitudes, min_size=1, max_size=30), st.data())
def test_damaged_bytes_are_refused_or_are_another_sketch(values: list[float], data: st.DataObject) -> None:
    raw = bytearray(of_values([*values, 1.0]) or b"")
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw)
    try:
        once = merged([cut])
    except SketchError:
        return
    assert merged([once]) == once
    DDSketch.FromString(cut)


@settings(max_examples=60)
@given(st.binary(max_size=60))
def test_any_bytes_after_a_mapping_are_read_or_refused(tail: bytes) -> None:
    raw = sketch_message().SerializeToString() + tail
    try:
        once = merged([raw])
    except SketchError:
        return
    assert merged([once]) == once
