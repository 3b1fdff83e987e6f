"""A metric query costs the object store few ranges, asked for together; one that fails is told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.segment_opener import MetricOpener, UnitReader
from lakerunner_query.worker.shared.block_cache import WHOLE_BELOW, BlockCache
from resources.duckdb import Cancellation
from resources.objects.errors import StoreError
from tests.golden.engine_lake import gauge_table
from tests.support.patience import PATIENCE_S

SERIES, SAMPLES, SEGMENTS = 120, 6000, 3
STEP_MS = 1000
WIDTH_MS = SAMPLES * STEP_MS


class RecordingStore:
    """Objects in a folder, and the ranges that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, int, int]] = []
        self.together: threading.Barrier | None = None
        """Answers come once so many requests are here."""
        self.broken = ""
        """Key of an object whose ranges before the tail cannot be read."""
        self.tails: dict[str, int] = {}

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.asked.append((key, start, length))
        if self.together is not None:
            self.together.wait(PATIENCE_S)
        if key == self.broken and start + length <= self.tails[key]:
            raise StoreError(key, "slow down")
        with (self.folder / key).open("rb") as file:
            file.seek(start)
            return file.read(length)


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SegmentRef]]:
    """Neighbouring hours, as large as those that are read by ranges."""
    folder = tmp_path_factory.mktemp("lake")
    numbers = np.random.default_rng(1)
    found = []
    for number in range(SEGMENTS):
        times = number * WIDTH_MS + np.arange(1, SAMPLES + 1) * STEP_MS
        series: list[tuple[Labels, np.ndarray, np.ndarray]] = [
            ((("__name__", "m"), ("n", f"{n:03}")), times, numbers.integers(0, 1 << 40, SAMPLES) * 1.0)
            for n in range(SERIES)
        ]
        name = f"s{number}"
        made = write_metric_segment(
            [gauge_table(series)], folder / name, SegmentIdentity("o", "c", "metrics", 0, name)
        )
        assert made.bytes > 2 * WHOLE_BELOW
        found.append(
            SegmentRef(
                name, name, made.bytes, made.min_ns, made.max_ns, made.series_offset, made.series_length,
                made.rows,
            )
        )  # fmt: skip
    return folder, found


@pytest.fixture
def store(segments: tuple[Path, list[SegmentRef]]) -> RecordingStore:
    found = RecordingStore(segments[0])
    found.tails = {one.key: one.series_offset for one in segments[1]}
    return found


def open_over(store: RecordingStore, cache: Path, **budget: int) -> MetricOpener:
    return MetricOpener(BlockCache(cache, 1 << 30, store), 1 << 26, **budget)


def read(opener: MetricOpener, segments: Sequence[SegmentRef], value: str = "050") -> tuple[int, UnitReader]:
    """Return the number of samples of one series."""
    matchers = (Matcher("__name__", MatchOp.EQUAL, "m"), Matcher("n", MatchOp.EQUAL, value))
    with opener.open_unit(Cancellation()) as reader:
        source = LakeSource(reader, segments, opener.interner.numbers())
        return len(source.select(matchers, 0, 1 << 40).time_ms), reader


def test_a_series_costs_its_tail_and_its_columns(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    one = segments[1][:1]
    found, reader = read(open_over(store, tmp_path), one)
    assert found == SAMPLES
    report = reader.report()
    assert (report.requests, report.bytes_fetched) == (
        len(store.asked), sum(length for _, _, length in store.asked),
    )  # fmt: skip
    assert store.asked[0][1] <= one[0].series_offset
    assert report.requests <= 3
    assert report.bytes_fetched < one[0].bytes / 2


def test_a_segment_without_the_series_costs_its_tail(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    found, reader = read(open_over(store, tmp_path), segments[1], "none")
    assert found == 0
    assert reader.report().requests == SEGMENTS


def test_tails_are_asked_for_together(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    store.together = threading.Barrier(SEGMENTS)
    found, _ = read(open_over(store, tmp_path), segments[1], "none")
    assert found == 0
    assert not store.together.broken


def test_columns_of_all_segments_are_asked_for_before_one_is_decoded(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    opener = open_over(store, tmp_path)
    read(opener, segments[1], "none")
    tails = len(store.asked)
    store.together = threading.Barrier(SEGMENTS)
    found, _ = read(opener, segments[1])
    assert found == SEGMENTS * SAMPLES
    assert {key for key, *_ in store.asked[tails : tails + SEGMENTS]} <= {one.key for one in segments[1]}
    assert not store.together.broken


def test_nothing_is_asked_for_twice(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    read(open_over(store, tmp_path), segments[1])
    before = len(store.asked)
    found, reader = read(open_over(store, tmp_path), segments[1])  # after a restart
    assert found == SEGMENTS * SAMPLES
    assert len(store.asked) == before
    assert reader.report().requests == 0


def test_columns_that_cannot_be_read_are_told(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    store.broken = segments[1][1].key
    opener = open_over(store, tmp_path)
    found, reader = read(opener, segments[1])
    assert found == (SEGMENTS - 1) * SAMPLES
    assert [one.reason for one in reader.report().missing] == ["slow down"]
    store.broken = ""
    found, reader = read(opener, segments[1])
    assert found == SEGMENTS * SAMPLES
    assert not reader.report().missing


def test_a_unit_has_a_budget(
    store: RecordingStore, segments: tuple[Path, list[SegmentRef]], tmp_path: Path
) -> None:
    with pytest.raises(LimitExceededError, match="more than 4 requests"):
        read(open_over(store, tmp_path, max_requests=4), segments[1])
    with pytest.raises(LimitExceededError, match="MiB of the object store"):
        read(open_over(store, tmp_path / "other", max_bytes=1 << 17), segments[1])
