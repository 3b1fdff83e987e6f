"""Rows of a frame as JSON: every row has an object per kind of label, even of a kind it has no label of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import Category, Column, LogFrame
from lakerunner_query.worker.logs.late_materialisation import json_objects


def column(codes: list[int], values: list[str]) -> Column:
    return Column(np.array(codes, np.int32), pa.array(values, pa.string()), Category.PARSED)


def test_rows_without_a_label_have_an_empty_object() -> None:
    labels = {"b": column([0, -1, 1, -1], ["x", "ü\n"]), "a": column([-1, -1, 0, -1], [""])}
    frame = LogFrame(np.arange(4, dtype=np.int64), pa.array(list("wxyz")), labels)
    assert json_objects(frame, Category.PARSED).to_pylist() == [
        '{"b":"x"}',
        "{}",
        '{"a":"","b":"ü\\n"}',
        "{}",
    ]
    assert json_objects(frame, Category.METADATA).to_pylist() == ["{}"] * 4
