"""A lake on this machine's disk is read where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.shared.segment_file import (
    FetchMeter,
    SegmentsInPlace,
    SegmentUnreadableError,
    folder_of,
)


def ref(key: str, size: int = 3) -> SegmentRef:
    return SegmentRef("s", key, size, 0, 0, 0, 0)


def test_the_file_itself_is_given_and_nothing_fetched(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "s.parquet").write_bytes(b"abc")
    segments = SegmentsInPlace(tmp_path)
    meter = FetchMeter()
    with segments.open(ref("db/s.parquet"), meter) as file:
        assert (file.source(), file.read(1, 2)) == (tmp_path / "db" / "s.parquet", b"bc")
    assert (meter.bytes, meter.requests) == (0, 0)
    segments.forget(ref("db/s.parquet"))
    assert (tmp_path / "db" / "s.parquet").read_bytes() == b"abc"


@pytest.mark.parametrize(
    ("key", "size", "reason"),
    [
        ("gone", 3, "cannot be read"),
        ("s", 4, "has 3 bytes, the index says 4"),
        ("../outside", 3, "not a segment key"),
    ],
)
def test_what_is_not_as_the_index_says_is_unreadable(
    tmp_path: Path, key: str, size: int, reason: str
) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "s").write_bytes(b"abc")
    (tmp_path / "outside").write_bytes(b"abc")
    with pytest.raises(SegmentUnreadableError, match=reason):
        SegmentsInPlace(tmp_path / "lake").open(ref(key, size), FetchMeter())


def test_only_lakes_of_this_machine_have_a_folder() -> None:
    assert folder_of("file:///srv/my%20lake") == Path("/srv/my lake")
    assert folder_of("s3://bucket/lake") is None
