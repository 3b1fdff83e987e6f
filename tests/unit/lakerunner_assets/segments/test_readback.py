"""A segment with any damaged page is not published."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakerunner_assets.lake_files import put_segment
from lakerunner_assets.segments import readback
from lakerunner_assets.segments.readback import UnreadableSegmentError, verify_segment
from resources.lake.layout import Signal
from resources.lake.segment_file import read_facts
from resources.objects import client
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.cooking_lake import HOUR, SECOND, lake_in
from tests.support.decode.hostile_parquet import own_segment
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import wait_for


@pytest.fixture(scope="module", params=[Signal.LOGS, Signal.METRICS])
def segment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_segment(tmp_path_factory.mktemp("segment"), request.param)


def test_a_good_segment_passes_and_each_page_has_a_checksum(segment: Path) -> None:
    verify_segment(segment)
    with pq.ParquetFile(segment, page_checksum_verification=True) as file:
        assert file.read().num_rows == 999


def resident_kib(path: Path) -> int:
    """Sum the memory that maps of the file count for."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            inside = line.endswith(str(path))
        elif inside and first == "Rss:":
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_pages_that_were_read_do_not_stay_in_memory(
    segment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge of a gigabyte took a gigabyte more while its file was read back and put."""
    seen: list[int] = []
    monkeypatch.setattr(readback, "_verify_blocks", lambda *_: seen.append(resident_kib(segment)))
    verify_segment(segment)
    assert seen == [0]

    large = tmp_path / "large"
    large.write_bytes(bytes(8 << 20))
    monkeypatch.setattr(client, "LARGE_FILE", 1 << 20)
    monkeypatch.setattr(client, "DROP_S", 0.001)
    with client.readable(large) as mapped:
        assert bytes(mapped) == bytes(8 << 20)
        wait_for(lambda: resident_kib(large) == 0, "the pages to be dropped")


def test_a_byte_changed_in_any_page_is_found(segment: Path, tmp_path: Path) -> None:
    metadata = pq.read_metadata(segment)
    data = segment.read_bytes()
    spoilt = tmp_path / "spoilt.parquet"
    for index in range(metadata.num_columns):
        chunk = metadata.row_group(0).column(index)
        last = max(chunk.data_page_offset, chunk.dictionary_page_offset or 0) + 1
        start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
        for at in {start + chunk.total_compressed_size - 1, last}:
            spoilt.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises(UnreadableSegmentError):
                verify_segment(spoilt)


def test_a_file_cut_short_or_with_a_damaged_series_table_is_found(segment: Path, tmp_path: Path) -> None:
    data = segment.read_bytes()
    facts = read_facts(pq.read_metadata(segment))
    at = facts.series_offset + facts.series_length // 3
    spoilt = tmp_path / "spoilt.parquet"
    for damaged in (b"x", data[:-1], data[: len(data) // 2], data[:at] + b"\xff" * 99 + data[at + 99 :]):
        spoilt.write_bytes(damaged)
        with pytest.raises(UnreadableSegmentError, match="cannot be read as it was written"):
            verify_segment(spoilt)


def test_a_damaged_segment_is_neither_put_nor_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was: its raw objects counted as done, and its rows were gone."""
    path = own_segment(tmp_path)
    damage(path)
    (tmp_path / "lake").mkdir()
    with pytest.raises(UnreadableSegmentError):
        put_segment(open_store(f"file://{tmp_path}/lake", Settings()), "a/b.parquet", path)
    assert list((tmp_path / "lake").rglob("*.parquet")) == []

    def spoil(made: Path) -> None:
        damage(made)
        verify_segment(made)

    lake = lake_in(tmp_path / "other")
    lake.arrive("a", otlp_logs([(HOUR + SECOND, "a")]))
    monkeypatch.setattr("lakerunner_assets.lake_files.verify_segment", spoil)
    with pytest.raises(UnreadableSegmentError):
        lake.cook()
    assert lake.segments() == []


def damage(path: Path) -> None:
    """Change the last byte of the first column."""
    chunk = pq.read_metadata(path).row_group(0).column(0)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(bytes(data))
