"""Stacks that answer from a lake: in one piece, cut in many, or from rollups where those say the same.

A cut query has three slices, or as many as have two steps each, evaluated apart over hour-wide segments and
joined in order of time.
"""

from __future__ import annotations

from collections import Counter

from lakerunner_query.errors import QueryError
from lakerunner_query.evaluate.context import Options
from lakerunner_query.evaluate.promql import evaluate, settle
from lakerunner_query.evaluate.vectors import Steps
from lakerunner_query.execute.metric_slices import steady_parts
from lakerunner_query.lang.promql.bound import bind
from lakerunner_query.lang.promql.parser import parse
from resources.lake.timecut import HOUR_NS
from tests.golden.lake_source import LakeFiles
from tests.golden.promqltest_compare import Outcome
from tests.golden.promqltest_script import Times
from tests.golden.promqltest_stacks import SourceStack, Stack, outcome_of

SLICES = 3


class SplitStack(SourceStack):
    """Slices as the coordinator cuts them, only much smaller."""

    def ask(self, text: str, times: Times, is_range: bool) -> Outcome:
        if not is_range:
            return super().ask(text, times, is_range)
        steps = Steps(times.start_ms, times.step_ms, (times.end_ms - times.start_ms) // times.step_ms + 1)
        try:
            expr = bind(parse(text), times.start_ms, times.end_ms, times.step_ms)
            parts = [part.steps for part in steady_parts(steps, SLICES)]
            answer = settle([evaluate(expr, part, self._source, self.options) for part in parts])
        except QueryError as error:
            return Outcome(failure=str(error))
        return outcome_of(answer, text, steps, is_range)


class RollupStack(SourceStack):
    """Rollups do not keep when counters began to count: where scripts say it, samples answer."""

    def ask(self, text: str, times: Times, is_range: bool) -> Outcome:
        samples = (sample for series in self._source.series.values() for sample in series)
        self.options = Options(start_timestamps=any(sample.start_ms for sample in samples))
        return super().ask(text, times, is_range)

    @property
    def served(self) -> Counter[int]:
        """Rows of rollups that were read, by frequency."""
        assert isinstance(self._source, LakeFiles)
        return self._source.served


def lake_stack(name: str) -> Stack:
    if name == "single":
        return SourceStack(LakeFiles())
    if name == "split":
        return SplitStack(LakeFiles(width_ns=HOUR_NS))
    return RollupStack(LakeFiles(with_rollups=True))
