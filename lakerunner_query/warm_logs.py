"""Compiles the kernels of LogQL, as `warm.py` does those of PromQL: a query for every stage and function.

Times come from Parquet as arrays that may not be written to, and from memory as arrays that may; kernels are
compiled for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import Category, LogFrame, of_texts
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.lexer import PARAMETRIC, UNGROUPED, UNWRAPPED, VECTOR_AGGREGATIONS
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.logql.metrics.counts import QUANTILE
from lakerunner_query.logql.metrics.evaluate import evaluate
from lakerunner_query.logql.metrics.vectors import APPROXIMATE
from lakerunner_query.logql.pipeline import Buckets, Demand, apply
from lakerunner_query.worker.parquet.code_kernels import add_codes, count_keys, count_rows, first_page
from lakerunner_query.worker.parquet.page_kernels import deltas, pages_of
from lakerunner_query.worker.shared.render_kernels import whole_blocks

SECOND_NS = 10**9
LINES = (
    '{"v": 1.5, "a": {"b": ["x", 2]}, "e": "\\u00e9"}',
    'v=1 msg="two words" e="a\\"b" ip=10.0.0.1',
    "GET /home 200 1ms",
    '{"_entry": "v=2", "k": "x"}',
    "broken {",
)
STAGES = (
    "| json", '| json v="v", b="a.b[0]"', "| logfmt", "| logfmt --strict", "| logfmt v, msg", "| unpack",
    "| pattern `<method> <path> <_>`", "| regexp `(?P<method>\\w+) (?P<path>\\S+)`", "| decolorize",
    "|> `GET <_>`", '|= ip("10.0.0.0/8")', '|= "v" != "w" |~ "v|w"', '| a="1" or v > 1', "| keep a",
    '| drop a="1"', '| label_format c="{{.a}}", d=a', '| line_format "{{.a}} {{__line__}}"',
)  # fmt: skip
COMMON = (
    'sum by (a) (count_over_time({a=~".+"} | json | __error__="" [5s]))',
    'sum(rate({a=~".+"} | logfmt | unwrap v | __error__="" [5s]))',
)
SKIPPED = '| __error__=""'


class FewLines:
    """Two streams, in a frame of arrays that may be written to and in one of arrays that may not."""

    def rows(self, query: LogQuery, from_ns: int, to_ns: int, demand: Demand) -> Iterator[LogFrame]:
        del from_ns, to_ns
        for writeable in (True, False):
            yield apply(_frame(writeable), query.stages, demand, 0)

    def buckets(
        self,
        query: LogQuery,
        by: tuple[str, ...],
        start_ns: int,
        width_ns: int,
        count: int,
        *,
        with_bytes: bool,
    ) -> Buckets | None:
        del query, by, start_ns, width_ns, count, with_bytes
        return None


def _frame(writeable: bool) -> LogFrame:
    rows = len(LINES) * 2
    times = np.arange(1, rows + 1, dtype=np.int64) * SECOND_NS
    times.flags.writeable = writeable
    labels = {"a": of_texts(pa.array(["1", "2"] * len(LINES)), Category.STREAM)}
    return LogFrame(times, pa.array(LINES * 2), labels, np.zeros(rows, np.int64), times)


def texts() -> list[str]:
    """Every stage, every range and vector aggregation, and operators."""
    unwrapped = '{a=~".+"} | logfmt | unwrap v ' + SKIPPED + " [5s]"
    plain = '{a=~".+"}[5s]'
    found = [f'count_over_time({{a=~".+"}} {stage} {SKIPPED} [5s])' for stage in STAGES]
    found += [f"{op}({'0.5, ' if op == QUANTILE else ''}{unwrapped})" for op in sorted(UNWRAPPED)]
    for op in sorted(VECTOR_AGGREGATIONS):
        grouping = "" if op in UNGROUPED else " by (a)"
        found.append(f"{op}{grouping} ({'1, ' if op in PARAMETRIC else ''}rate({plain}) * 0.5)")
    found += [
        f"sum(bytes_rate({plain})) + on () group_right bytes_over_time({plain})",
        f"rate({plain}) and rate({plain})",
    ]
    return [*found, f"rate({plain}) or vector(1)", f"absent_over_time({plain}) > 2"]


def plain() -> None:
    """What counts rows by the pages of their columns, and what spells the counts."""
    page = np.frombuffer(bytes(12), np.uint8)
    times, keys, counts = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros((1, 1), np.int64)
    first_page(page)
    pages_of(page, 1)
    deltas(page, 0, times)
    add_codes(page, 0, 1, keys)
    count_keys(keys, counts)
    count_rows(times, keys, 0, 1, 1, counts)
    whole_blocks(np.ones((1, 1)), np.ones((1, 1), np.bool_), pa.array(["1"]))


def run(queries: Sequence[str]) -> int:
    """How many queries were evaluated, all of them at one time and over some."""
    plain()
    for text in queries:
        expr = parse_expr(text)
        if isinstance(expr, LogQuery):
            raise TypeError(f"{text}: expected samples")
        if APPROXIMATE not in text:
            evaluate(expr, LogSteps(4 * SECOND_NS, SECOND_NS, 4), FewLines())
        evaluate(expr, LogSteps(9 * SECOND_NS), FewLines())
    return len(queries)
