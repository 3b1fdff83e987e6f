"""The query worker as a process: `POST /work` behind the internal token, and its health.

A unit runs in a thread while the event loop watches the connection: when the coordinator hangs up, the scan
is interrupted. `lakerunner query-worker` calls `serve`.
"""

from __future__ import annotations

import asyncio
import ctypes
import hmac
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import anyio
import duckdb
import msgspec
import numpy as np
import uvicorn
from anyio.to_thread import run_sync
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import State
from litestar.di import Provide

from lakerunner_query.errors import (
    InvalidRequestError,
    LimitExceededError,
    UnauthorizedError,
    WorkFailedError,
)
from lakerunner_query.protocol.answers import (
    encode_facts,
    encode_metric_answer,
    encode_patterns_answer,
    encode_series_answer,
    encode_shard_answer,
    encode_streams_answer,
)
from lakerunner_query.protocol.units import (
    TOKEN_HEADER,
    ExemplarUnit,
    LogMetricUnit,
    LogUnit,
    MetadataUnit,
    MetricUnit,
    PatternsUnit,
    SeriesUnit,
    ShardUnit,
    StreamsUnit,
    Unit,
    UnitReport,
    encode_answer,
)
from lakerunner_query.serving import Counters, handlers, respond_plain, watch
from lakerunner_query.warmup import preload
from lakerunner_query.worker.logs.lines import LogScanner
from lakerunner_query.worker.logs.patterns import PatternReader
from lakerunner_query.worker.logs.samples import LogMetricScanner
from lakerunner_query.worker.logs.segment_opener import SegmentOpener, SegmentStore
from lakerunner_query.worker.logs.stream_listing import StreamLister
from lakerunner_query.worker.metrics.exemplars import ExemplarReader, MetadataReader, SeriesLister
from lakerunner_query.worker.metrics.promql_units import Answers, MetricScanner
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.segment_cache import SegmentCache, SegmentsInPlace, folder_of
from resources.duckdb import Cancellation, CancelledQueryError, DuckLimits, DuckSession
from resources.objects.client import ObjectStore
from resources.objects.store import open_store, render_store_metrics
from resources.settings import Settings

# << How a worker process holds memory: what was given back stays at hand, and some is there from the start.
# <<
# << The first touch of a page of memory costs microseconds, on a virtual machine more than decoding the
# << samples
# << that it then holds. By default the C library gives large arrays back to the system at once, and the
# << next query
# << pays again. Samples are large arrays, so a worker keeps what it had.

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of `mallopt` of the GNU C library."""
KEPT = 512 << 20
"""Free memory at the end of the heap that is not given back."""
LARGEST = 1 << 30
"""Arrays beyond this are the system's as soon as they are not used."""
PAGE = 4096


def keep_what_was_freed() -> bool:
    """Before there are threads; whether this C library can be told."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    asked = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGEST), (_TRIM_THRESHOLD, KEPT))
    return all(mallopt(option, value) == 1 for option, value in asked)


def have_at_hand(size: int) -> None:
    """Touch so many bytes once: the first queries find them."""
    np.empty(size, np.uint8)[::PAGE] = 0


ARROW = "application/vnd.apache.arrow.stream"
CLIENT_GONE = 499
AT_HAND = 16
"""This part of its memory a worker has touched before it is ready."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker process holds."""

    token: str
    scanner: LogScanner
    log_metrics: LogMetricScanner
    metrics: MetricScanner
    lister: SeriesLister
    streams: StreamLister
    patterns: PatternReader
    describer: MetadataReader
    exemplars: ExemplarReader
    answers: Answers
    cache: SegmentCache
    session: DuckSession
    threads: anyio.CapacityLimiter
    counters: Counters
    loading: threading.Thread

    async def run(self, body: bytes, request: Request[object, object, State]) -> bytes:
        unit = _decode(body)
        cancellation = Cancellation()
        watcher = asyncio.create_task(watch(request, cancellation.cancel))
        try:
            return await run_sync(partial(self._scan, unit, cancellation), limiter=self.threads)
        except CancelledQueryError:
            self.counters.add("lakerunner_worker_cancelled_total")
            raise
        finally:
            cancellation.cancel()
            watcher.cancel()

    def _scan(self, unit: Unit, cancellation: Cancellation) -> bytes:
        if isinstance(unit, MetricUnit | ShardUnit | LogMetricUnit):
            return self._metrics(unit, cancellation)
        if not isinstance(unit, LogUnit):
            return self._facts(unit, cancellation)
        with _told():
            rows, report = self.scanner.run(unit, cancellation)
        self.counters.add("lakerunner_worker_rows_total", rows.num_rows)
        self.counters.add("lakerunner_worker_bytes_considered_total", report.bytes_considered)
        self.counters.add("lakerunner_worker_bytes_fetched_total", report.bytes_fetched)
        return encode_answer(rows, report)

    def _facts(
        self,
        unit: SeriesUnit | StreamsUnit | PatternsUnit | MetadataUnit | ExemplarUnit,
        cancellation: Cancellation,
    ) -> bytes:
        match unit:
            case SeriesUnit():
                return encode_series_answer(self.lister.run(unit, cancellation))
            case StreamsUnit():
                return encode_streams_answer(self.streams.run(unit, cancellation))
            case PatternsUnit():
                with _told():
                    return encode_patterns_answer(self.patterns.run(unit, cancellation))
            case MetadataUnit():
                return encode_facts(self.describer.run(unit, cancellation))
            case ExemplarUnit():
                return encode_facts(self.exemplars.run(unit, cancellation))

    def _metrics(self, unit: MetricUnit | ShardUnit | LogMetricUnit, cancellation: Cancellation) -> bytes:
        known = self.answers.of(unit)
        if known is not None:
            self.counters.add("lakerunner_worker_answers_remembered_total")
            return known
        if isinstance(unit, ShardUnit):
            part = self.metrics.shard(unit, cancellation)
            body, report = encode_shard_answer(part), part.report
        elif isinstance(unit, LogMetricUnit):
            with _told():
                counted = self.log_metrics.run(unit, cancellation)
            body, report = encode_metric_answer(counted), counted.report
        else:
            found = self.metrics.run(unit, cancellation)
            body, report = encode_metric_answer(found), UnitReport() if unit.given else found.report
        self.counters.add("lakerunner_worker_samples_total", report.rows_considered)
        self.counters.add("lakerunner_worker_bytes_fetched_total", report.bytes_fetched)
        if not report.missing:
            self.answers.keep(unit, body)
        return body


@post("/work", status_code=200, include_in_schema=False, request_max_body_size=None)
async def work(request: Request[object, object, State], worker: Worker) -> Response[bytes]:
    """One unit of work; the answer is an Arrow stream."""
    if not hmac.compare_digest(request.headers.get(TOKEN_HEADER, "").encode(), worker.token.encode()):
        raise UnauthorizedError("this endpoint is for the query API only")
    body = await request.body()
    try:
        return Response(await worker.run(body, request), media_type=ARROW)
    except CancelledQueryError:
        return Response(b"", status_code=CLIENT_GONE)


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False)
def alive() -> str:
    return "ok\n"


@get("/readyz", media_type=MediaType.TEXT)
async def ready(worker: Worker) -> Response[str]:
    """Ready means that kernels are loaded, for which the first query would wait, and a statement runs."""
    if worker.loading.is_alive():
        return Response("loading kernels\n", status_code=503)
    await run_sync(_probe, worker.session)
    return Response("ok\n")


@get("/metrics", media_type=MediaType.TEXT, sync_to_thread=False)
def metrics(worker: Worker) -> str:
    cache = {
        "lakerunner_worker_cache_bytes": worker.cache.used_bytes,
        "lakerunner_worker_cache_budget_bytes": worker.cache.budget_bytes,
    }
    return worker.counters.render(gauges=cache) + render_store_metrics()


def create_worker_app(settings: Settings, store: SegmentStore | None = None) -> Litestar:
    """The ASGI application; needs `internal_token`, and `lake_url` unless a store is given."""
    token = settings.require("internal_token")
    lake = store or open_store(settings.require("lake_url"), settings)

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        app.state.worker = await run_sync(_open_worker, settings, token, lake)
        try:
            yield
        finally:
            app.state.worker.session.close()

    return Litestar(
        route_handlers=[work, alive, ready, metrics],
        lifespan=[lifespan],
        dependencies={"worker": Provide(_worker, sync_to_thread=False)},
        exception_handlers=handlers(respond_plain),
        openapi_config=None,
    )


def serve(settings: Settings) -> int:
    """Run until told to stop."""
    keep_what_was_freed()
    app = create_worker_app(settings)
    uvicorn.run(
        app,
        host=settings.worker_host,
        port=settings.worker_port,
        log_level=settings.log_level.lower(),
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    return 0


def _open_worker(settings: Settings, token: str, store: SegmentStore) -> Worker:
    # two workers of one machine share a data directory, never a cache
    home = settings.data_dir / "query-worker" / str(settings.worker_port)
    cache = SegmentCache(home / "cache", settings.cache_max_bytes, store)
    limits = DuckLimits(settings.worker_memory_mb, settings.worker_threads, home / "spill", (home / "cache",))
    session = DuckSession(limits)
    logs = SegmentOpener(cache, store)
    lake = folder_of(settings.lake_url) if isinstance(store, ObjectStore) else None
    in_place = None if lake is None else SegmentsInPlace(lake)
    opener = MetricOpener(in_place or cache, store, settings.worker_memory_mb * 1024 * 1024 // 3)
    threads = anyio.CapacityLimiter(max(2, settings.worker_threads))
    loading = threading.Thread(target=_load, args=(settings.worker_memory_mb,), daemon=True)
    loading.start()
    return Worker(
        token,
        LogScanner(logs, session),
        LogMetricScanner(logs, session),
        MetricScanner(opener),
        SeriesLister(opener),
        StreamLister(logs),
        PatternReader(logs, session),
        MetadataReader(opener),
        ExemplarReader(opener),
        Answers(settings.worker_answers_mb * 1024 * 1024),
        cache,
        session,
        threads,
        Counters(),
        loading,
    )


def _load(memory_mb: int) -> None:
    have_at_hand((memory_mb << 20) // AT_HAND)
    preload()


def _worker(state: State) -> Worker:
    found: Worker = state.worker
    return found


def _decode(body: bytes) -> Unit:
    try:
        found: Unit = msgspec.json.decode(body, type=Unit)
    except msgspec.MsgspecError as error:
        raise InvalidRequestError(f"not a unit of work: {error}") from error
    return found


@contextmanager
def _told() -> Iterator[None]:
    """What DuckDB raises, in words of ours."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise LimitExceededError(
            "this part of the query needs more memory than a worker has: "
            "lower the limit, or narrow the time range or the stream matchers"
        ) from error
    except duckdb.Error as error:
        raise WorkFailedError(f"the scan failed: {str(error).splitlines()[0]}") from error


def _probe(session: DuckSession) -> None:
    with session.cursor() as cursor, suppress(duckdb.InterruptException):
        cursor.execute("SELECT 1").fetchall()
