"""Parquet files whose bytes lie: indices, page sizes, footers, and what they unfold to."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.layout import Signal
from resources.lake.metric_values import VALUE_SQL, VALUE_SQL_KEY
from resources.lake.segment_file import MappedColumn, file_metadata, read_facts, read_label_map
from tests.support.cooking_lake import HOUR
from tests.support.decoding import decode_object

LEVELS = ("info", "warn", "error")
Change = Callable[[pa.Table], pa.Table]


def written(table: pa.Table, **options: Any) -> bytearray:
    """The file, with its dictionary indices in plain sight."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"compression": "none", "write_statistics": False, **options})
    return bytearray(sink.getvalue())


def out_of_range(data: bytearray, column: str, row_group: int = 0) -> bytes:
    """Set the last indices of the column to ones that its dictionary does not have."""
    metadata = pq.read_metadata(io.BytesIO(data))
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    chunk = metadata.row_group(row_group).column(names.index(column))
    assert chunk.has_dictionary_page, chunk
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    data[end - 40 : end - 4] = b"\xff" * 36
    return bytes(data)


def repeated_rows(rows: int = 1000) -> pa.Table:
    """Three texts and three numbers in turn: dictionaries with room for a fourth index."""
    turn = [(row * 7) % 3 for row in range(rows)]
    return pa.table(
        {
            "message": pa.array([("one", "two", "three")[at] for at in turn]),
            "n": pa.array([(10, 20, 30)[at] for at in turn], pa.int64()),
        }
    )


def own_segment(folder: Path, signal: Signal = Signal.LOGS, rows: int = 1000) -> Path:
    """A good segment of ours, one row fewer than `rows`, three of everything."""
    path = folder / f"own-{signal.value}.parquet"
    identity = SegmentIdentity("acme", "c", signal.value, HOUR, "0" * 32)
    if signal is Signal.LOGS:
        lines = (
            f'{{"ts":{HOUR + at},"msg":"m","app":"a{at % 3}","n":{at % 3},"level":"{LEVELS[at % 3]}"}}\n'
            for at in range(1, rows)
        )
        tables = [part.table for part in decode_object("".join(lines).encode(), name="x.json")]
        write_log_segment(tables, path, identity)
    else:
        lines = (
            f'{{"ts":{HOUR // 10**6 + at},"name":"up","value":{at},"host":"h{at % 3}"}}\n'
            for at in range(1, rows)
        )
        tables = [part.table for part in decode_object("".join(lines).encode(), signal=signal, name="x.json")]
        write_metric_segment(tables, path, identity)
    return path


def forged(
    path: Path,
    change: Change = lambda table: table,
    *,
    facts: Mapping[str, Any] | None = None,
    label_map: Callable[[tuple[MappedColumn, ...]], tuple[MappedColumn, ...]] = lambda found: found,
    block: Callable[[bytes], bytes] = lambda raw: raw,
    **options: Any,
) -> bytearray:
    """Write a segment of ours again, with other columns or another footer, as whoever has a writer can."""
    data = path.read_bytes()
    metadata = pq.read_metadata(path)
    found = read_facts(metadata)
    table = change(pq.read_table(path))
    series = data[found.series_offset : found.series_offset + found.series_length]
    out = path.with_suffix(".forged")
    given = {"compression": "none", "write_statistics": False, "store_schema": False, **options}
    with pa.OSFile(str(out), "wb") as sink, pq.ParquetWriter(sink, table.schema, **given) as writer:
        writer.write_table(table)
        table_block, bloom = block(series), b"bloom"
        at = sink.tell()  # the table first, and Parquet's own index behind the blocks: as writers did before
        sink.write(table_block + bloom)
        placed = {
            "series_offset": at,
            "series_length": len(table_block),
            "bloom_offset": at + len(table_block),
            "bloom_length": len(bloom),
        }
        placed = type(found)(**{**asdict(found), **placed, **(facts or {})})
        writer.add_key_value_metadata(
            {**file_metadata(placed, label_map(read_label_map(metadata))), VALUE_SQL_KEY: VALUE_SQL.encode()}
        )
    return bytearray(out.read_bytes())
