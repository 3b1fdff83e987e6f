"""Frames of a few lines, and what a query's stages make of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import Category, Column, LogFrame, grouped_rows
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.pipeline import Demand

Texts = dict[str, str]
ALL = Demand(None)


def frame_of(lines: Sequence[str], stream: Texts | None = None, metadata: Texts | None = None) -> LogFrame:
    """A row per line, its number as time, all with the same labels."""
    columns = {}
    for category, texts in ((Category.STREAM, stream), (Category.METADATA, metadata)):
        for name, text in (texts or {}).items():
            codes = np.zeros(len(lines), np.int32)
            columns[name] = Column(codes, pa.array([text], pa.string()), category)
    return LogFrame(np.arange(len(lines), dtype=np.int64), pa.array(lines, pa.string()), columns)


def applied(frame: LogFrame, query: str, demand: Demand = ALL) -> LogFrame:
    return pipeline.apply(frame, parse(f'{{app="web"}} {query}').stages, demand, 0)


def labels_of(frame: LogFrame) -> dict[int, Texts]:
    """By number of the line."""
    codes, sets = grouped_rows(frame)
    return {int(row): dict(sets[code]) for row, code in zip(frame.tsns, codes, strict=True)}


def labels(
    query: str, *lines: str, stream: Texts | None = None, metadata: Texts | None = None
) -> list[Texts]:
    """The labels of the lines that pass."""
    return list(labels_of(applied(frame_of(lines, stream, metadata), query)).values())


def passing(query: str, *lines: str, stream: Texts | None = None) -> list[str]:
    """The lines that pass, as they are then."""
    found: list[str] = applied(frame_of(lines, stream), query).line.to_pylist()
    return found
