"""A small lake in this process, asked in both languages from text to JSON; every failure has a name.

    with SmallLake(folder, seed=1) as lake:
        lake.promql("2 </ 3", at)          Outcome(code="execution", …)
        lake.logql('{app="web"}', at)      Outcome(code="", …)

Series are those of `promql.fuzz_data`, lines those of `logql.against_data`, in segments on disk. Units and
answers are encoded and decoded as if they travelled; what no `QueryError` explains has the code `internal`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.logql.against_data import START_NS, Line, generated
from benchmarks.promql.fuzz_data import BASE_MS, random_data
from benchmarks.promql.fuzz_lake import INTERNAL, LakeApi
from benchmarks.promql.samples import Sampled
from lakerunner_query.api.loki.render import samples_json, streams_json
from lakerunner_query.api.prometheus.language import tree
from lakerunner_query.coordinator.logql_lines import is_log_query
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.errors import QueryError
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.pretty import pretty as pretty_logql
from lakerunner_query.promql.lang.parser import parse as parse_promql
from lakerunner_query.promql.lang.printer import pretty as pretty_promql
from tests.golden.log_lake import LogLake
from tests.golden.logqltest_script import LogLine

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a query in milliseconds after the data begins; a step of 0 asks at the end only."""

    start: int = 0
    end: int = 600_000
    step: int = 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a query: the code of its error, or the answer's size."""

    code: str = ""
    message: str = ""
    bytes: int = 0
    status: int = 200

    @property
    def is_unexplained(self) -> bool:
        return self.status >= 500


class SmallLake:
    """Both languages over the same folder."""

    def __init__(
        self,
        folder: Path,
        seed: int = 1,
        series: Sequence[Sampled] | None = None,
        lines: Sequence[Line] | None = None,
    ) -> None:
        self._metrics = LakeApi(folder, random_data(seed).series if series is None else series)
        self._logs = LogLake(parts=2)
        lines = generated(seed, 400) if lines is None else lines
        self._logs.write([LogLine(line.labels, line.time_ns, line.text, line.metadata) for line in lines])

    def __enter__(self) -> Self:
        self._metrics.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._metrics.__exit__(kind, error, trace)

    def promql(self, text: str, at: Times) -> Outcome:
        """Evaluate and render the query, and print its tree anew."""

        def run() -> bytes:
            answer = self._metrics.rendered(text, BASE_MS + at.start, BASE_MS + at.end, at.step)
            parsed = parse_promql(text)
            tree(parsed)
            pretty_promql(parsed)
            return answer

        return _outcome(run)

    def logql(self, text: str, at: Times) -> Outcome:
        """Evaluate and render the query, and print it prettily."""

        def run() -> bytes:
            pretty_logql(parse_expr(text))
            start, end = START_NS + at.start * NS_PER_MS, START_NS + at.end * NS_PER_MS
            if is_log_query(text):
                rows = self._logs.lines(text, start, end)
                return streams_json([rows], RowMerge(100), 0.1, categorize=True)
            step = at.step * NS_PER_MS
            joined = self._logs.ask(text, start if step else end, end, step)
            return samples_json(joined, joined.kind, None if step else end, 0.1)

        return _outcome(run)


def _outcome(run: Callable[[], bytes]) -> Outcome:
    try:
        return Outcome(bytes=len(run()))
    except QueryError as error:
        return Outcome(error.code, str(error), status=error.status)
    except Exception:  # noqa: BLE001 - whatever it is, it is found
        return Outcome(INTERNAL, traceback.format_exc(limit=-8), status=500)
