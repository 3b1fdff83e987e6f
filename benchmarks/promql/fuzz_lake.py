"""Our side of the comparison: the whole query path in this process, in the shape of Prometheus' API."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.promql.samples import Sampled
from lakerunner_query.api.prometheus import render
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.errors import InvalidRequestError, QueryError
from lakerunner_query.plan.slices import SampleSliceSizes
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.check import type_of
from resources.lake.timecut import HOUR_NS, cut
from tests.golden.engine_lake import NS_PER_MS, ORG, EngineLake, gauge_table
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample

SMALL = SampleSliceSizes(rows=20_000, at_least=2_000)
WHOLE = SampleSliceSizes(rows=1 << 40, at_least=1 << 40)
INTERNAL = "internal"


class LakeApi:
    """A lake of hour-wide segments, floats and histograms apart, and questions to it."""

    def __init__(self, folder: Path, series: Sequence[Sampled], sizes: SampleSliceSizes = SMALL) -> None:
        self._lake = EngineLake(folder, sizes=sizes)
        self._runner = asyncio.Runner()
        ends = [int(t) * NS_PER_MS for one in series for t in (one.time_ms[0], one.time_ms[-1])]
        for hour in range(cut(min(ends), HOUR_NS), max(ends), HOUR_NS):
            low, high = hour // NS_PER_MS, (hour + HOUR_NS) // NS_PER_MS
            parts = [part for one in series if len((part := one.between(low, high)).time_ms)]
            floats = [(p.labels, p.time_ms, p.value) for p in parts if p.histograms is None]
            if floats:
                self._lake.write_table(hour, gauge_table(floats))
            rows = [row for part in parts if part.histograms is not None for row in sample_rows(part)]
            if rows:
                self._lake.write_table(hour, sample_table(rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def ask(self, text: str, start_ms: int, end_ms: int, step_ms: int = 0) -> dict[str, Any]:
        """As Prometheus answers; an error that is none of a query's is of type `internal`."""
        try:
            found: dict[str, Any] = json.loads(self.rendered(text, start_ms, end_ms, step_ms))
        except QueryError as error:
            return {"status": "error", "errorType": type(error).__name__, "error": str(error)}
        except Exception:  # noqa: BLE001 - whatever it is, it is found
            return {"status": "error", "errorType": INTERNAL, "error": traceback.format_exc(limit=-6)}
        return found

    def rendered(self, text: str, start_ms: int, end_ms: int, step_ms: int = 0) -> bytes:
        """Return the body of a successful answer, or raise what is wrong."""
        joined = self._runner.run(self._asked(text, PromQLRequest(ORG, start_ms, end_ms, step_ms)))
        at_ms = None if step_ms else end_ms
        data, _ = render.result(joined, at_ms=at_ms, limit=0, stats=b"")
        said = render.messages_of(joined.annotations, text, ())
        return render.success(data, said)

    async def _asked(self, text: str, asked: PromQLRequest) -> SampleResult:
        prepared = await self._lake.engine.prepare(self._lake.language, text, asked)
        if asked.step_ms and type_of(prepared.plan.expr) not in {Type.SCALAR, Type.VECTOR}:
            raise RangeTypeError(f"invalid expression type {type_of(prepared.plan.expr)} for range query")
        return await self._lake.engine.collect(prepared)


class RangeTypeError(InvalidRequestError):
    """As the HTTP API says it."""


def sample_rows(one: Sampled) -> list[tuple[Any, Sample]]:
    assert one.histograms is not None
    return [
        (one.labels, Sample(time, number, histogram))
        for time, number, histogram in zip(
            one.time_ms.tolist(), one.value.tolist(), one.histograms, strict=True
        )
    ]
