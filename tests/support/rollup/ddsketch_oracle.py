"""DDSketches as the protobuf runtime and plain loops have them, and the values that tests are made of."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import strategies as st

from lakerunner_assets.rollup.ddsketch import build

GAMMA = 1.01 / 0.99
TABLE = """
DDSketch
  1 mapping IndexMapping
  2 positiveValues Store
  3 negativeValues Store
  4 zeroCount double
IndexMapping
  1 gamma double
  2 indexOffset double
  3 interpolation int32
Store
  1 binCounts Entry*
  2 contiguousBinCounts double*
  3 contiguousBinIndexOffset sint32
"""
KINDS = {"double": 1, "int32": 5, "sint32": 17}


def message_class() -> Any:
    """DataDog's messages; `binCounts` is a real map, as `resources.proto.build` has none."""
    file = descriptor_pb2.FileDescriptorProto(name="ddsketch.proto", package="dd", syntax="proto3")
    for line in TABLE.split("\n"):
        words = line.split()
        if len(words) == 1:
            message = file.message_type.add(name=words[0])
        elif words:
            field = message.field.add(name=words[1], number=int(words[0]), label=3 if "*" in line else 1)
            kind = words[2].rstrip("*")
            if kind in KINDS:
                field.type = KINDS[kind]
            else:
                field.type = 11
                field.type_name = ".dd.Store.BinCountsEntry" if kind == "Entry" else f".dd.{kind}"
    entry = message.nested_type.add(name="BinCountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=17, label=1)
    entry.field.add(name="value", number=2, type=1, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("dd.DDSketch"))


DDSketch = message_class()
NO_SKETCHES = pa.array([], pa.binary())
NONE = np.empty(0, np.int64)


def of_values(values: Sequence[float], weights: Sequence[float] | None = None) -> bytes | None:
    """The sketch of one group of values."""
    found = build(
        np.array(values, np.float64),
        np.ones(len(values)) if weights is None else np.array(weights, np.float64),
        np.zeros(len(values), np.int64),
        NO_SKETCHES,
        NONE,
        1,
    )
    found.validate(full=True)
    answer: bytes | None = found[0].as_py()
    return answer


def merged(sketches: Sequence[bytes]) -> bytes:
    found = build(
        np.empty(0), np.empty(0), NONE, pa.array(sketches, pa.binary()), np.zeros(len(sketches), np.int64), 1
    )
    answer: bytes = found[0].as_py()
    return answer


def sketch_message(**stores: Any) -> Any:
    """A message of our mapping; each store is a dict of bins (sparse) or (offset, counts) (a block)."""
    message = DDSketch()
    message.mapping.gamma = GAMMA
    for name, store in stores.items():
        if name == "zeroCount":
            message.zeroCount = store
        elif isinstance(store, dict):
            for index, count in store.items():
                getattr(message, name).binCounts[index] = count
        else:
            getattr(message, name).contiguousBinIndexOffset = store[0]
            getattr(message, name).contiguousBinCounts.extend(store[1])
    return message


def index_of(value: float) -> int:
    return math.ceil(math.log(abs(value)) / math.log(GAMMA))


def plain_bins(values: Sequence[float], weights: Sequence[float]) -> dict[str, Any]:
    stores: dict[str, Counter[int]] = {"positiveValues": Counter(), "negativeValues": Counter()}
    zeros = 0.0
    for value, weight in zip(values, weights, strict=True):
        if not math.isfinite(value) or weight == 0:
            continue
        if abs(value) < sys.float_info.min:
            zeros += weight
        else:
            stores["positiveValues" if value > 0 else "negativeValues"][index_of(value)] += weight
    bins: dict[str, Any] = {name: dict(store) for name, store in stores.items() if store}
    return bins | ({"zeroCount": zeros} if zeros else {})


def bins_in(raw: bytes) -> dict[str, Any]:
    """What the protobuf runtime finds, whichever form it has."""
    message = DDSketch.FromString(raw)
    assert (message.mapping.gamma, message.mapping.indexOffset, message.mapping.interpolation) == (
        GAMMA,
        0,
        0,
    )
    bins: dict[str, Any] = {}
    for name in ("positiveValues", "negativeValues"):
        if message.HasField(name):
            store = getattr(message, name)
            counts = dict(store.binCounts)
            for number, count in enumerate(store.contiguousBinCounts):
                if count:
                    counts[store.contiguousBinIndexOffset + number] = count
            bins[name] = counts
    return bins | ({"zeroCount": message.zeroCount} if message.zeroCount else {})


def store_bytes(store: dict[int, float]) -> bytes:
    """The shorter form, each bin written by the protobuf runtime."""
    first, last = min(store), max(store)
    block = DDSketch().positiveValues
    block.contiguousBinIndexOffset = first
    block.contiguousBinCounts.extend(store.get(index, 0.0) for index in range(first, last + 1))
    entries = b""
    for index in sorted(store):
        entry = DDSketch().positiveValues
        entry.binCounts[index] = store[index]
        entries += entry.SerializeToString()
    forms: list[bytes] = [block.SerializeToString(), entries]
    return min(forms, key=len)


def expected_bytes(bins: dict[str, Any]) -> bytes:
    whole: bytes = sketch_message().SerializeToString()
    for tag, name in ((0x12, "positiveValues"), (0x1A, "negativeValues")):
        if name in bins:
            raw = store_bytes(bins[name])
            whole += bytes([tag]) + _VarintBytes(len(raw)) + raw
    return whole + bytes(DDSketch(zeroCount=bins.get("zeroCount", 0.0)).SerializeToString())


magnitudes = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-1000, 1000),
    st.floats(1, 1.5),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, sys.float_info.min, -sys.float_info.min]),
    st.sampled_from([sys.float_info.max, -sys.float_info.max, 2.225e-308, 1e300, 0.1, 100.0]),
)
"""Anything, much in few bins, and the borders."""
finite = magnitudes.filter(math.isfinite)
