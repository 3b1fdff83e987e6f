"""The series table as its readers see it: what was written, or an error."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.lake import series
from resources.lake.series import Series, SeriesTableError
from resources.lake.streams import Labels, canonical, stream_id

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
LABEL_SETS = st.lists(st.dictionaries(TEXT, TEXT, max_size=4).map(canonical), min_size=1, max_size=8)


def built(label_sets: list[Labels], **changed: list[int]) -> pa.Table:
    count = len(label_sets)
    numbers = {
        "tid": [stream_id(labels) for labels in label_sets],
        "row": [3 * n for n in range(count)],
        "rows": [3] * count,
        "first_ms": [-5] * count,
        "last_ms": [7] * count,
        "base": [2**61] * count,
        "exponent": [9] * count,
        **changed,
    }
    return series.build(label_sets, {name: np.array(column) for name, column in numbers.items()})


@settings(max_examples=50, deadline=None)
@given(LABEL_SETS)
def test_round_trip(label_sets: list[Labels]) -> None:
    found = series.decode(series.encode(built(label_sets)), 3 * len(label_sets))
    assert found == tuple(
        Series(stream_id(labels), labels, 3 * n, 3, -5, 7, 2**61, 9) for n, labels in enumerate(label_sets)
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"row": [1, 4]},
        {"row": [0, 4]},
        {"rows": [4, 2]},
        {"rows": [3, 2]},
        {"row": [0, 0], "rows": [0, 6]},
        {"first_ms": [8, -5]},
        {"exponent": [0, 10]},
        {"exponent": [-1, 0]},
    ],
)
def test_ranges_that_are_not_those_of_the_file_are_refused(changed: dict[str, list[int]]) -> None:
    label_sets: list[Labels] = [(("a", "1"),), (("a", "2"),)]
    raw = series.encode(built(label_sets, **changed))
    with pytest.raises(SeriesTableError, match=r"series [01] of 2"):
        series.decode(raw, 6)


def test_broken_bytes_are_refused() -> None:
    raw = series.encode(built([(("a", "1"),), (("b", "2"),)]))
    for length in range(0, len(raw) - 8, 7):
        with pytest.raises(SeriesTableError):
            series.decode(raw[:length], 6)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64())])):
        pass
    with pytest.raises(SeriesTableError, match="expected the columns"):
        series.decode(sink.getvalue(), 0)


def test_flipped_bytes_are_refused_or_harmless() -> None:
    label_sets: list[Labels] = [(("a", str(n)),) for n in range(20)]
    raw = series.encode(built(label_sets))
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(500):
        broken = bytearray(raw)
        broken[rng.integers(0, len(raw))] = rng.integers(0, 256)
        try:
            found = series.decode(bytes(broken), 60)
        except SeriesTableError:
            refused += 1
        else:
            assert [each.row for each in found] == list(range(0, 60, 3))
    assert refused > 50
