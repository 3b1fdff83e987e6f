"""A metric segment back as the decoded table it was written from, in the segment's order.

For whoever writes segments from segments (compaction) and for tests; queries read by series and not by file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.segments.metric_columns import OPTIONAL, REQUIRED
from resources.lake import metric_values, series, streams
from resources.lake.segment_file import read_facts, read_label_map


def read_metric_segment(path: Path) -> pa.Table:
    """All rows; text columns are plain but for `chq_series`."""
    with pq.ParquetFile(path) as file:
        table = file.read().combine_chunks()
        facts = read_facts(file.metadata)
        attributes = {
            column.column: Attribute(column.scope, column.key, column.kind)
            for column in read_label_map(file.metadata)
        }
    columns: dict[str, pa.Array] = {name: table.column(name).chunk(0) for name in table.column_names}
    stored = {name: columns.pop(name) for name in metric_values.VALUE_COLUMNS}
    columns["chq_value"] = metric_values.values(stored)
    columns["chq_series"] = _label_sets(path, facts.series_offset, facts.series_length, facts.rows)
    wanted = REQUIRED | OPTIONAL
    arrays, schema = [], []
    for name, column in columns.items():
        attribute = attributes.get(name)
        if attribute is None:
            arrays.append(column if name == "chq_series" else column.cast(wanted[name]))
            schema.append(pa.field(name, arrays[-1].type))
        else:
            arrays.append(column)
            schema.append(attribute.field(name, column.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def _label_sets(path: Path, offset: int, length: int, rows: int) -> pa.DictionaryArray:
    with path.open("rb") as file:
        file.seek(offset)
        found = series.decode(file.read(length), rows)
    codes = np.repeat(np.arange(len(found), dtype=np.int32), [each.rows for each in found])
    texts = pa.array([streams.labels_to_text(each.labels) for each in found], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts)
