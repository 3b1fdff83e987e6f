"""Labels of scanned rows: which column wins, what clashes with streams, what overflowed into a map."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import Category, Column
from lakerunner_query.worker.logs.footer import Footer, RowGroups
from lakerunner_query.worker.logs.labels import ScannedRows, label_columns
from resources.lake.segment_file import MappedColumn

NOTHING = np.zeros(0, np.int64)
NO_GROUPS = RowGroups(np.zeros(1, np.int64), *[NOTHING] * 5)
WEB, OTHER = {"service_name": "web"}, {"a": "b"}


def scanned(columns: dict[str, object], labels: list[dict[str, str]], *mapped: MappedColumn) -> ScannedRows:
    """One row per label set."""
    table = pa.table(columns)
    columns_of = {f.name: str(f.type) for f in table.schema}
    footer = Footer(columns_of, mapped, table.num_rows, NO_GROUPS, cast("Any", None))
    ranks = np.arange(len(labels), dtype=np.int32)
    return ScannedRows(table, np.zeros(len(labels), np.int32), ranks, [footer], labels)


def row(found: dict[str, Column], number: int) -> dict[str, str]:
    return {
        name: column.values[column.codes[number]].as_py()
        for name, column in sorted(found.items())
        if column.codes[number] >= 0
    }


def test_an_overflowed_attribute_clashes_with_a_label_like_any_other() -> None:
    pairs = pa.map_(pa.string(), pa.string())
    columns = {
        "detected_level": ["info", "warn"],
        "attr_overflow": pa.array([[("service.name", "x"), ("b", "1")], None], pairs),
        "resource_overflow": pa.array(
            [[("service.name", "web"), ("c", "2")], [("service.name", "y")]], pairs
        ),
    }
    found = label_columns(scanned(columns, [WEB, OTHER]))
    web = {"service_name": "web", "b": "1", "c": "2", "detected_level": "info", "service_name_extracted": "x"}
    assert row(found, 0) == web
    assert row(found, 1) == {"a": "b", "detected_level": "warn", "service_name": "y"}
    assert found["service_name"].category.tolist() == [Category.STREAM, Category.METADATA]  # type: ignore[union-attr]


def test_what_the_record_says_wins_over_its_scope_and_its_resource() -> None:
    mapped = [MappedColumn(f"{scope}_x", scope, "x", "string") for scope in ("record", "scope", "resource")]
    columns = {
        "record_x": ["1", None, None, None],
        "scope_x": ["2", "2", None, None],
        "resource_x": ["3"] * 3 + [None],
    }
    found = label_columns(scanned(columns, [{}] * 4, *mapped), {"x"})
    assert [row(found, number).get("x") for number in range(4)] == ["1", "2", "3", None]


def test_only_labels_that_are_asked_for_are_made() -> None:
    columns = {"attr_x": ["1"], "attr_y": ["2"], "attr_service_name": ["z"]}
    mapped = [MappedColumn(name, "record", name.removeprefix("attr_"), "string") for name in columns]
    found = label_columns(scanned(columns, [WEB], *mapped), {"x", "service_name_extracted"})
    assert row(found, 0) == {"x": "1", "service_name_extracted": "z"}


def test_values_are_spelled_as_opentelemetry_does() -> None:
    columns = {
        "trace_id": pa.array([bytes(range(16)), bytes(16)], pa.binary(16)),
        "log_severity_number": pa.array([9, 0], pa.int32()),
        "attr_n": [7, None],
        "attr_d": [2.5, 1e21],
        "attr_b": [True, False],
        "detected_level": ["info", None],
    }
    mapped = [
        MappedColumn(name, "record", name[5:], kind)
        for name, kind in (("attr_n", "int"), ("attr_d", "double"), ("attr_b", "bool"))
    ]
    found = label_columns(scanned(columns, [{}, {}], *mapped))
    assert row(found, 0) == {
        "b": "true", "d": "2.5", "n": "7", "severity_number": "9", "detected_level": "info",
        "trace_id": "000102030405060708090a0b0c0d0e0f",
    }  # fmt: skip
    assert row(found, 1) == {"b": "false", "d": "1e+21", "detected_level": "unknown"}
