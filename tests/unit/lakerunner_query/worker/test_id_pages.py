"""Ids are found in their pages; those stored in another way, or with nulls among them, are left to Arrow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.parquet.column_chunks import Chunk, plain_chunk, rows_with_id
from lakerunner_query.worker.shared.segment_file import LocalFile

IDS = [bytes([7, number, *range(14)]) for number in (0, 1, 2)]


def found(path: Path, ids: list[bytes | None], wanted: bytes, **options: object) -> list[int] | None:
    table = pa.table({"trace_id": pa.array(ids, pa.binary(16))})
    pq.write_table(table, path, **{"compression": "zstd", "use_dictionary": False, **options})
    metadata = pq.read_metadata(path)
    chunk = plain_chunk(metadata.row_group(0).column(0), metadata.schema.column(0))
    if not isinstance(chunk, Chunk):
        return None
    with LocalFile(SegmentRef("s", "s", 0, 0, 0, 0, 0), path) as file:
        rows = rows_with_id(file, chunk, len(ids), wanted)
    return None if rows is None else rows.tolist()


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("page", [64, 1 << 20])
def test_every_row_with_the_id_is_found(tmp_path: Path, compression: str, page: int) -> None:
    ids: list[bytes | None] = [*(IDS[number % 3] for number in range(100)), IDS[1]]
    options = {"compression": compression, "data_page_size": page, "write_batch_size": 3}
    assert found(tmp_path / "s", ids, IDS[1], **options) == [*range(1, 100, 3), 100]
    assert found(tmp_path / "s", ids, bytes(16), **options) == []


@pytest.mark.parametrize(
    ("ids", "options"),
    [
        ([IDS[0], None, IDS[0]], {}),
        ([IDS[0]] * 9, {"use_dictionary": True}),
        ([IDS[0]] * 9, {"compression": "gzip"}),
    ],
)
def test_ids_stored_in_another_way_are_left_to_arrow(
    tmp_path: Path, ids: list[bytes | None], options: dict[str, object]
) -> None:
    assert found(tmp_path / "s", ids, IDS[0], **options) is None
