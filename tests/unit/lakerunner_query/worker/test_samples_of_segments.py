"""Samples come back from segments as they were sent: one per series and millisecond, however they lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Series
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from resources.duckdb import Cancellation
from resources.lake import streams
from resources.objects.store import open_store
from resources.settings import Settings

STALE = float(np.int64(0x7FF0000000000002).view(np.float64))
UP = (Matcher("__name__", MatchOp.EQUAL, "up"),)
Sample = tuple[str, int, int, float]
"""Instance, ms, ns within it, value."""


class Lake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = open_store(f"file://{folder}/lake", Settings.load({}))
        self.opener = MetricOpener(BlockCache(folder / "cache", 1 << 28, store), 1 << 26)
        self.segments: list[SegmentRef] = []

    def write(self, table: pa.Table) -> SegmentRef:
        name = f"s{len(self.segments)}"
        path = self.folder / "lake" / "db" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = write_metric_segment([table], path, SegmentIdentity("o", "c", "metrics", 0, name))
        ref = SegmentRef(
            name, f"db/{name}.parquet", made.bytes, made.min_ns, made.max_ns,
            made.series_offset, made.series_length, made.rows,
        )  # fmt: skip
        self.segments.append(ref)
        return ref

    def select(self, matchers: Sequence[Matcher], from_ms: int = -1, to_ms: int = 1 << 40) -> Series:
        with self.opener.open_unit(Cancellation()) as reading:
            found = LakeSource(reading, self.segments, self.opener.interner.numbers()).select(
                matchers, from_ms, to_ms
            )
            self.missing = dict(reading.missing)
            return found


def float_table(samples: Sequence[Sample], first_position: int) -> pa.Table:
    labels = [(("__name__", "up"), ("instance", instance)) for instance, *_ in samples]
    return pa.table(
        {
            "metric_name": ["up"] * len(samples),
            "chq_tid": pa.array([streams.stream_id(one) for one in labels], pa.int64()),
            "chq_timestamp": pa.array([ms for _, ms, _, _ in samples], pa.int64()),
            "chq_tsns": pa.array([ms * 1_000_000 + ns for _, ms, ns, _ in samples], pa.int64()),
            "chq_metric_type": ["gauge"] * len(samples),
            "chq_object": pa.array([1] * len(samples), pa.int64()),
            "chq_position": pa.array(range(first_position, first_position + len(samples)), pa.int64()),
            "chq_series": [streams.labels_to_text(one) for one in labels],
            "chq_value": pa.array(np.array([v for *_, v in samples]), from_pandas=False),
        }
    )


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 12),
        st.sampled_from([0, 1, 500]),
        st.sampled_from([0.0, 1.5, -2.0, STALE]),
    ),
    min_size=1,
    max_size=12,
)


@given(parts=st.lists(SAMPLES, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_one_sample_per_series_and_millisecond_whichever_segment_it_is_in(
    parts: list[list[Sample]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    best: dict[tuple[str, int], tuple[int, bool, int, bytes]] = {}
    position = 0
    for samples in parts:
        lake.write(float_table(samples, position))
        for place, (instance, ms, ns, value) in enumerate(samples):
            bits = np.float64(value).tobytes()
            rank = (ns, bits != np.float64(STALE).tobytes(), position + place, bits)
            best[instance, ms] = max(best.get((instance, ms), rank), rank)
        position += len(samples)
    found = lake.select(UP)
    rows = np.repeat(np.arange(found.count), np.diff(found.offsets)).tolist()
    got = {
        (dict(found.labels[row])["instance"], ms): found.value[at].tobytes()
        for at, (row, ms) in enumerate(zip(rows, found.time_ms.tolist(), strict=True))
    }
    assert got == {key: rank[-1] for key, rank in best.items()}
    assert len(got) == len(rows)
    assert found.labels == sorted(found.labels)


def test_only_what_lies_in_the_left_open_range_is_returned(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.write(float_table([("a", 10, 0, 1.0), ("a", 20, 0, 2.0), ("b", 30, 0, 3.0)], 0))
    found = lake.select(UP, 10, 20)
    assert [dict(labels)["instance"] for labels in found.labels] == ["a"]
    assert found.time_ms.tolist() == [20]


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (MatchOp.EQUAL, "a", "a"),
        (MatchOp.NOT_EQUAL, "a", "bc"),
        (MatchOp.REGEX, "a|c", "ac"),
        (MatchOp.NOT_REGEX, "[ab]", "c"),
        (MatchOp.REGEX, "", ""),
        (MatchOp.NOT_EQUAL, "", "abc"),
    ],
)
def test_matchers_on_a_label(tmp_path: Path, op: MatchOp, value: str, expected: str) -> None:
    lake = Lake(tmp_path)
    lake.write(float_table([(name, 1, 0, 1.0) for name in "abc"], 0))
    found = lake.select((*UP, Matcher("instance", op, value)))
    assert "".join(dict(labels)["instance"] for labels in found.labels) == expected


def test_an_absent_label_is_the_empty_value(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.write(float_table([("a", 1, 0, 1.0)], 0))
    assert lake.select((*UP, Matcher("zone", MatchOp.EQUAL, ""))).count == 1
    assert lake.select((*UP, Matcher("zone", MatchOp.NOT_EQUAL, ""))).count == 0


def test_a_damaged_segment_is_named_and_the_others_answer(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.write(float_table([("a", 1, 0, 1.0)], 0))
    broken = lake.write(float_table([("b", 1, 0, 1.0)], 1))
    path = tmp_path / "lake" / broken.key
    raw = bytearray(path.read_bytes())
    raw[-40:-8] = b"\xff" * 32
    path.write_bytes(raw)
    found = lake.select(UP)
    assert [dict(labels)["instance"] for labels in found.labels] == ["a"]
    assert list(lake.missing) == [broken.segment_id]


def test_a_second_query_reads_no_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    ref = lake.write(float_table([("a", 1, 0, 1.0)], 0))
    first = lake.select(UP)
    (tmp_path / "lake" / ref.key).unlink()
    again = lake.select(UP)
    assert again.value.tolist() == first.value.tolist() == [1.0]
