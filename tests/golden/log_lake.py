"""The whole path of queries over logs without processes: segments on disk, engine, slices, workers.

Lines are written as ingestion writes them, but without what it would add (`service_name`, levels): scripts
expect the labels they load and no others. Units and answers are encoded and decoded as if they travelled.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import LOG_LINES, LOG_SAMPLES
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.logql_lines import read_rows
from lakerunner_query.coordinator.logql_samples import SLICE_SIZES, LogSamplesRequest, cut_log_samples
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.plan.slices import LogSliceSizes
from lakerunner_query.protocol.answers import encode_metric_answer
from lakerunner_query.protocol.tables import encode_answer
from lakerunner_query.protocol.units import LogMetricUnit, LogUnit, Unit
from lakerunner_query.worker.logs.lines import LineScanner
from lakerunner_query.worker.logs.samples import LogSampleScanner
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.index.types import Segment
from resources.lake import streams
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, hour_start
from resources.objects.store import open_store
from resources.settings import Settings
from tests.golden.engine_lake import ORG, Segments
from tests.golden.logqltest_script import LogLine

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Scanners:
    """The readers of one worker."""

    samples: LogSampleScanner
    lines: LineScanner

    def answer(self, unit: LogMetricUnit | LogUnit) -> bytes:
        if isinstance(unit, LogUnit):
            return encode_answer(*self.lines.run(unit, Cancellation()))
        return encode_metric_answer(self.samples.run(unit, Cancellation()))


class Workers:
    """The contract of `Dispatcher`, without sockets: parts of one query go to different workers."""

    def __init__(self, scanners: Sequence[Scanners]) -> None:
        self.count = len(scanners)
        self.units = 0
        self._scanners = scanners

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], Answer], *, org: str, ahead: int = 1
    ) -> AsyncGenerator[Answer, None]:
        del org, ahead
        for unit in units:
            received: Any = msgspec.json.decode(msgspec.json.encode(unit), type=Unit)  # type: ignore[arg-type]
            assert isinstance(received, LogMetricUnit | LogUnit)
            turn = received.turn if isinstance(received, LogMetricUnit) else self.units
            self.units += 1
            yield decode(self._scanners[turn % self.count].answer(received))


class LogLake:
    """Segments of lines, and questions to them."""

    def __init__(self, parts: int = 1, workers: int = 2, sizes: LogSliceSizes | None = None) -> None:
        self._parts = parts
        self._folder = Path(tempfile.mkdtemp(prefix="lakerunner-golden-logs-"))
        self._index = Segments()
        self._serial = itertools.count()
        self.dispatcher = Workers([self._scanner(number) for number in range(workers)])
        self._engine = Engine(
            Locator(cast("Any", self._index)),
            cast("Dispatcher", self.dispatcher),
            Admission(4),
            Limits(600.0, max_rows=5_000),
        )
        self._language = replace(LOG_SAMPLES, cut=partial(cut_log_samples, sizes=sizes or SLICE_SIZES))

    def clear(self) -> None:
        self._index.rows.clear()

    def write(self, lines: Sequence[LogLine]) -> None:
        """Every line goes to one of the parts, and to the segment of its hour."""
        found: dict[tuple[int, int], list[LogLine]] = {}
        for number, line in enumerate(lines):
            found.setdefault((hour_start(line.time_ns), number % self._parts), []).append(line)
        for (hour, _), part in found.items():
            self._write(hour, part)

    def ask(self, text: str, start_ns: int, end_ns: int, step_ns: int) -> SampleResult:
        async def asked() -> SampleResult:
            request = LogSamplesRequest(ORG, start_ns, end_ns, step_ns)
            prepared = await self._engine.prepare(self._language, text, request)
            return await self._engine.collect(prepared)

        return asyncio.run(asked())

    def lines(
        self, text: str, start_ns: int, end_ns: int, *, limit: int = 100, reverse: bool = True
    ) -> pa.Table:
        """Return the rows of a log query as Loki's API asks for them."""

        async def asked() -> pa.Table:
            request = LogLinesRequest(ORG, start_ns, end_ns, limit, reverse=reverse, distinct=True)
            rows, _ = await read_rows(self._engine, await self._engine.prepare(LOG_LINES, text, request))
            return rows

        return asyncio.run(asked())

    def _scanner(self, number: int) -> Scanners:
        lake, cache = self._folder / "lake", self._folder / f"cache{number}"
        lake.mkdir(exist_ok=True)
        store = open_store(f"file://{lake}", Settings.load({}))
        blocks = BlockCache(cache, 1 << 30, store)
        session = DuckSession(
            DuckLimits(512, 1, self._folder / f"spill{number}", (), LakeFileSystem(blocks.handle))
        )
        opener = SegmentOpener(blocks)
        return Scanners(LogSampleScanner(opener, session), LineScanner(opener, session))

    def _write(self, hour_ns: int, lines: Sequence[LogLine]) -> None:
        number = next(self._serial)
        name = f"{number:032x}"
        key = f"db/{ORG}/golden/{name}.parquet"
        path = self._folder / "lake" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        identity = SegmentIdentity(ORG, "golden", "logs", hour_ns, name)
        written = write_log_segment([log_table(lines, number)], path, identity)
        self._index.rows.append(_segment(name, key, hour_ns, written))


def log_table(lines: Sequence[LogLine], number: int) -> pa.Table:
    """As a decoder hands rows to the writer; an empty stream label is none."""
    sets = [streams.canonical({name: value for name, value in line.labels if value}) for line in lines]
    text = pa.array([line.text for line in lines], pa.string())
    columns = {
        "chq_tsns": pa.array([line.time_ns for line in lines], pa.int64()),
        "log_level": pa.nulls(len(lines), pa.string()).dictionary_encode(),
        "log_message": text,
        "chq_fingerprint": pa.array(fingerprints(text)),
        "chq_object": pa.array(np.full(len(lines), number, np.int64)),
        "chq_position": pa.array(np.arange(len(lines), dtype=np.int64)),
        "chq_stream_id": pa.array([streams.stream_id(each) for each in sets], pa.int64()),
        "chq_stream": pa.array([streams.labels_to_text(each) for each in sets]).dictionary_encode(),
    }
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    for name in sorted({name for line in lines for name, _ in line.metadata}):
        values = pa.array([dict(line.metadata).get(name) for line in lines], pa.string())
        columns[f"attr_{name}"] = values.dictionary_encode()
        held = {"chq_scope": "record", "chq_key": name, "chq_kind": "string"}
        fields.append(pa.field(f"attr_{name}", columns[f"attr_{name}"].type, metadata=held))
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _segment(name: str, key: str, hour_ns: int, written: WrittenSegment) -> Segment:
    return Segment(
        segment_id=name, key=key, org=ORG, collector="golden", signal=Signal.LOGS, dataset="logs",
        frequency_ms=0, hour_ns=hour_ns, width_ns=HOUR_NS, min_ns=written.min_ns, max_ns=written.max_ns,
        rows=written.rows, bytes=written.bytes, level=0, origin="", format_version=written.format_version,
        sort_version=written.sort_version, terms=written.terms, label_names=written.label_names,
        metric_names=(), series_offset=written.series_offset, series_length=written.series_length,
        bloom_offset=written.bloom_offset, bloom_length=written.bloom_length,
    )  # fmt: skip
