"""Stacks that answer from a lake: in one piece, cut in many, or from rollups where those say the same.

A cut query has three slices, or as many as have two steps each, evaluated apart over hour-wide segments and
joined in order of time. An instant query has three shards of series where its parts are of single series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakerunner_query.errors import QueryError
from lakerunner_query.plan.promql import per_series
from lakerunner_query.plan.slices import steady_parts
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.evaluate import combine_results, evaluate, evaluate_parts
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.protocol.answers import ShardAnswer, agree, decode_shard_answer, encode_shard_answer
from lakerunner_query.vectors.vector import Steps
from lakerunner_query.worker.metrics.shards import NoSource, Shard, encode_parts, merge_parts
from resources.lake.timecut import HOUR_NS
from tests.golden.lake_source import LakeFiles
from tests.golden.promqltest_compare import Outcome
from tests.golden.promqltest_script import Times
from tests.golden.promqltest_stacks import SourceStack, Stack, outcome_of

SLICES = 3


class SplitStack(SourceStack):
    """Slices and shards as the coordinator cuts them, only much smaller."""

    def __init__(self, source: LakeFiles) -> None:
        super().__init__(source)
        self.asked: Counter[str] = Counter()
        """Instant queries, by what became of them."""

    def ask(self, text: str, times: Times, is_range: bool) -> Outcome:
        if not is_range:
            return self._at_once(text, times)
        steps = Steps(times.start_ms, times.step_ms, (times.end_ms - times.start_ms) // times.step_ms + 1)
        try:
            expr = bind(parse(text), times.start_ms, times.end_ms, times.step_ms)
            parts = [part.steps for part in steady_parts(steps, SLICES)]
            answer = combine_results([evaluate(expr, part, self._source, self.options) for part in parts])
        except QueryError as error:
            return Outcome(failure=str(error))
        return outcome_of(answer, text, steps, is_range)

    def _at_once(self, text: str, times: Times) -> Outcome:
        steps = Steps(times.start_ms, 1, 1)
        try:
            expr = bind(parse(text), times.start_ms, times.end_ms, 0)
            shards = self._shards(expr, steps)
            if shards is None:
                return super().ask(text, times, is_range=False)
            parts = merge_parts(expr, steps, shards)
            answer = combine_results([evaluate(expr, steps, NoSource(), self.options, parts)])
        except QueryError as error:
            return Outcome(failure=str(error))
        return outcome_of(answer, text, steps, is_range=False)

    def _shards(self, expr: Expr, steps: Steps) -> list[ShardAnswer] | None:
        parts = per_series(expr)
        if parts is None:
            self.asked["in one piece"] += 1
            return None
        try:
            answers = [self._shard(Shard(number, SLICES), expr, parts, steps) for number in range(SLICES)]
        except QueryError:
            self.asked["failed"] += 1
            return None
        self.asked["sharded" if agree(answers, 0, 0) else "in doubt"] += 1
        return answers if agree(answers, 0, 0) else None

    def _shard(self, shard: Shard, expr: Expr, parts: Sequence[Expr], steps: Steps) -> ShardAnswer:
        assert isinstance(self._source, LakeFiles)
        with self._source.source(shard) as source:
            found = evaluate_parts(expr, parts, steps, source, self.options)
            answer = ShardAnswer(encode_parts(found), int(source.traits))
        return decode_shard_answer(encode_shard_answer(answer))


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
