"""Segments list the streams of each row group, and readers believe the list."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.logql.corpus import START_NS, parts
from benchmarks.logql.lake import table_of
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.worker.logs.footer import footer_of
from resources.lake import segment_file
from resources.lake.segment_file import group_streams_metadata, read_group_streams
from resources.lake.timecut import MINUTE_NS, hour_start
from tests.support.segments.merging import merged, only

ROWS, RARE = 60_000, 7


def write(path: Path, number: int) -> None:
    """An hour of six services, and of a seventh in one slot only."""
    (part,) = parts(ROWS, 1, seed=number)
    times = START_NS + 1 + np.arange(ROWS, dtype=np.int64) * (60 * MINUTE_NS // ROWS)
    service = np.where(np.arange(ROWS) * 12 // ROWS == 3, RARE, part.service % 6).astype(np.int32)
    table = table_of(dataclasses.replace(part, tsns=times, service=service), number)
    identity = SegmentIdentity("acme", "c", "logs", hour_start(START_NS + 1), f"{number:032x}")
    write_log_segment([table], path, identity)


def check(path: Path) -> None:
    """The list says of every stream and row group what is in the file."""
    with pq.ParquetFile(path) as file:
        listed = read_group_streams(file.metadata)
        assert listed is not None
        assert file.num_row_groups > 10
        for number in range(file.num_row_groups):
            here = set(file.read_row_group(number, ["chq_stream_id"])["chq_stream_id"].to_pylist())
            for stream in listed.ids.tolist():
                assert listed.with_any(np.array([stream]))[number] == (stream in here)
        rare = [n for n in range(file.num_row_groups) if rare_in(file, n)]
        groups = footer_of(file.metadata).groups
        ids = file.read_row_group(rare[0], ["chq_stream_id"])["chq_stream_id"].unique().to_numpy()
        found = np.flatnonzero(groups.with_any(ids)).tolist()
        assert found == rare
        assert len(rare) < file.num_row_groups / 4


def rare_in(file: pq.ParquetFile, number: int) -> bool:
    services = file.read_row_group(number, ["resource_service_name"])["resource_service_name"]
    return services.unique().to_pylist() == [f"service-{RARE:03d}"]


def test_written_and_merged_segments_list_them(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / f"s{number}", number)
        check(tmp_path / f"s{number}")
    check(only(merged(MergeKind.LOGS, tmp_path / "merged", [tmp_path / "s0", tmp_path / "s1"])))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), min_size=2, max_size=9))
def test_any_streams_are_found_in_their_row_groups(groups: list[list[int]]) -> None:
    text = group_streams_metadata([np.unique(np.array(each, np.int64)) for each in groups])

    class Metadata:
        metadata = text
        num_row_groups = len(groups)

    found = read_group_streams(Metadata())  # type: ignore[arg-type]
    assert found is not None
    for stream in {one for each in groups for one in each} | {5}:
        assert found.with_any(np.array([stream])).tolist() == [stream in each for each in groups]


def test_too_many_streams_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [np.arange(100), np.arange(50, 150)]
    assert group_streams_metadata(groups)
    monkeypatch.setattr(segment_file, "MOST_STREAM_BYTES", 1000)
    assert group_streams_metadata(groups) == {}
    assert group_streams_metadata(groups[:1]) == {}
