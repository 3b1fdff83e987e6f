"""Names of structured metadata when the attributes overflowed into a map."""

from __future__ import annotations

import json

import pyarrow as pa

from lakerunner_query.worker.metadata import Scanned, metadata_json


def test_an_overflowed_attribute_clashes_with_a_label_like_any_other() -> None:
    pairs = pa.map_(pa.string(), pa.string())
    columns = {
        "detected_level": ["info", "warn"],
        "attr_overflow": pa.array([[("service.name", "x"), ("b", "1")], None], pairs),
        "resource_overflow": pa.array(
            [[("service.name", "web"), ("c", "2")], [("service.name", "y")]], pairs
        ),
    }
    labels = ({"service_name": "web"}, {"a": "b"})
    ranks = pa.array([0, 1], pa.int32())
    scanned = Scanned(pa.table(columns), pa.array([0, 0], pa.int32()), ranks, (), labels)
    assert [json.loads(text) for text in metadata_json(scanned).to_pylist()] == [
        {"b": "1", "c": "2", "detected_level": "info", "service_name_extracted": "x"},
        {"detected_level": "warn", "service_name": "y"},
    ]
