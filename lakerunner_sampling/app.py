"""`lakerunner sampler run` is one process: a sampler, an exporter per destination, and HTTP on loopback."""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import uvicorn
from anyio import to_thread
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import Scope

from lakerunner_sampling.aggregate import StateLimits
from lakerunner_sampling.backtest import Spans, backtest
from lakerunner_sampling.config import ExportConfig, SamplerConfig, make_shape, read_config_file
from lakerunner_sampling.dedup import Deduplicator
from lakerunner_sampling.export.datadog import DatadogSender, Version
from lakerunner_sampling.export.delivery import Exporter
from lakerunner_sampling.export.otlp import OtlpGrpcSender, OtlpHttpSender
from lakerunner_sampling.export.senders import FileSender, Sender
from lakerunner_sampling.follower import Follower, open_catalog
from lakerunner_sampling.late import WholeTraces, id_array
from lakerunner_sampling.loader import Loader
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.model import PolicyError
from lakerunner_sampling.process import Sampler, SamplerOptions
from lakerunner_sampling.table_files import TableFiles
from resources.duckdb import DuckLimits, DuckSession
from resources.exposition import CONTENT_TYPE, families, render
from resources.http_server import LOOPBACK, host_check, server_options
from resources.index.postgres import IndexUnavailableError, PostgresIndex
from resources.index.sampling_types import ID_BYTES, StoredDecision, rows_of
from resources.settings import Settings, SettingsError, process_environment

SECOND_NS = 10**9
LOADER_MB, EXPLAIN_MB = 96, 64
SILENT_S = 120.0
"""Seconds without a look at the table after which the process is not alive."""
SWEEP_S, SWEPT_ROWS = 60.0, 50_000
INDEX_CONNECTIONS = 8
MOST_POLICY_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class Parts:
    """All that runs in the process."""

    def __init__(
        self,
        settings: Settings,
        options: SamplerOptions,
        index: PostgresIndex,
        follower: Follower,
        sampler: Sampler,
        exporters: Sequence[Exporter],
        session: DuckSession,
    ) -> None:
        self.settings = settings
        self.options = options
        self.index = index
        self.follower = follower
        self.sampler = sampler
        self.exporters = exporters
        self.session = session
        self.stop = threading.Event()
        self.trying = threading.Lock()
        """Held by a back-test or an explanation: one at a time."""
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start all threads."""
        works = [
            self.sampler.run,
            *(lambda one=one: one.run(self.stop) for one in self.exporters),
            self._sweep,
        ]
        self.threads = [threading.Thread(target=work, name=f"sampler-{at}") for at, work in enumerate(works)]
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """Finish the commit and the chunks under way, and end."""
        self.stop.set()
        self.sampler.stop()
        for exporter in self.exporters:
            exporter.awake.set()
        for thread in self.threads:
            thread.join()
        self.sampler.close()
        self.session.close()

    def _sweep(self) -> None:
        """Forget old decisions, a bounded number at a time."""
        day_s = 86_400.0
        while not self.stop.wait(SWEEP_S):
            keep_s = self.settings.sampler_keep_days * day_s
            try:
                while self.index.forget_sampling(keep_s, keep_s, SWEPT_ROWS) == SWEPT_ROWS:
                    if self.stop.is_set():
                        return
            except IndexUnavailableError as error:
                _log.warning("old decisions are kept for now: %s", error)


@contextmanager
def opened(settings: Settings, config: SamplerConfig) -> Iterator[Parts]:
    """Build all parts; nothing runs yet."""
    app = config.app
    if not app.organization:
        raise SettingsError("app.organization is not set: name the organisation whose traces are sampled")
    if config.storage_type != "iceberg":
        raise SettingsError("storage_type memory is for comparisons: run a sampler with storage_type iceberg")
    folder = _scratch(app.scratch or settings.data_dir / "sampler", f"{app.organization}-{app.name}")
    name = f"{config.table.namespace}.{config.table.table}"
    follower = Follower(open_catalog(config.table.catalog, config.table.properties), name, config.table.shape)
    files = TableFiles(follower.table.io)
    shape = make_shape(config.table.shape, files)
    readable = _readable(settings, config, follower)
    limits = StateLimits(
        folder / "state", round(app.inactivity_s * SECOND_NS), round(app.max_duration_s * SECOND_NS),
        app.max_spans, app.memory_mb, app.threads, readable,
    )  # fmt: skip
    policies = config.policies.policy_set(app.uses_tracestate, app.inverted_decisions)
    version = hashlib.sha256(repr(config.policies).encode()).hexdigest()[:16]
    options = SamplerOptions(
        app.organization, app.name, policies, version, shape, limits,
        tuple(one.name for one in config.export), settings.sampler_lease_s, settings.sampler_poll_s, files,
    )  # fmt: skip
    session = DuckSession(DuckLimits(LOADER_MB, 1, folder / "spill", (*readable, folder / "decoded"), files))
    with PostgresIndex(settings.require("index_dsn"), max_connections=INDEX_CONNECTIONS) as index:
        dedup = Deduplicator(index, round(config.redis.trace_ttl_s), config.redis.url)
        exporters: list[Exporter] = []

        def wake() -> None:
            for exporter in exporters:
                exporter.awake.set()

        sampler = Sampler(options, index, follower, dedup, uuid.uuid4().hex, wake)
        exporters += [
            Exporter(
                _sender(one, session), index,
                Loader(follower, shape, session, folder / "decoded" / str(at), files), lambda: sampler.record,
            )
            for at, one in enumerate(config.export)
        ]  # fmt: skip
        yield Parts(settings, options, index, follower, sampler, exporters, session)
    shutil.rmtree(folder, ignore_errors=True)


def _scratch(folder: Path, name: str) -> Path:
    """Return a folder of this process, and delete those of processes that have ended."""
    own = f"{name}.{psutil.Process().pid}"
    for other in folder.glob(f"{name}.*"):
        number = other.name.rpartition(".")[2]
        if other.name == own or (number.isdigit() and not psutil.pid_exists(int(number))):
            shutil.rmtree(other, ignore_errors=True)
    (folder / own).mkdir(parents=True)
    return folder / own


def _readable(settings: Settings, config: SamplerConfig, follower: Follower) -> tuple[Path, ...]:
    """Return the local folders that hold data files: the table's, the warehouse, and the lake."""
    named = [follower.table.location(), config.table.properties.get("warehouse", ""), settings.lake_url]
    local = [TableFiles.named(one) for one in named if one]
    return tuple(dict.fromkeys(Path(one) for one in local if one.startswith("/")))


def _sender(config: ExportConfig, session: DuckSession) -> Sender:
    match config.type:
        case "datadog":
            sender = DatadogSender.to(config.name, config.url, session, Version(config.version))
            sender.headers = {**sender.headers, **config.headers}
            sender.timeout_s = config.timeout_s
            return sender
        case "otlp_http":
            return OtlpHttpSender(config.name, config.url, config.headers, config.timeout_s)
        case "otlp_grpc":
            return OtlpGrpcSender(config.name, config.url, config.headers, config.timeout_s)
        case _:
            return FileSender(config.name, Path(config.path))


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False)
def alive(parts: Parts) -> Response[str]:
    """Answer 200 while the sampler looks at its table, or tries to."""
    silent_s = time.monotonic() - parts.sampler.progress.looked_at
    is_running = all(thread.is_alive() for thread in parts.threads)
    if is_running and (silent_s < SILENT_S or parts.sampler.progress.error):
        return Response("ok\n")
    return Response(f"no commit was looked at for {silent_s:.0f} s\n", status_code=503)


@get("/readyz", media_type=MediaType.TEXT, sync_to_thread=False)
def ready(parts: Parts) -> Response[str]:
    """Answer 200 once the state is restored and while this process holds the sampler."""
    progress = parts.sampler.progress
    if progress.is_ready and not progress.error:
        return Response("ok\n")
    return Response(f"{progress.error or 'the state is being restored'}\n", status_code=503)


@get("/metrics", media_type=MediaType.TEXT)
async def metrics(parts: Parts) -> Response[str]:
    return Response(await to_thread.run_sync(_metrics, parts), media_type=CONTENT_TYPE)


def _metrics(parts: Parts) -> str:
    progress, org = parts.sampler.progress, parts.options.org
    found: dict[str, float] = {
        **progress.counts,
        "lakerunner_sampler_sequence": progress.sequence,
        "lakerunner_sampler_watermark_seconds": progress.watermark_ns / SECOND_NS,
        "lakerunner_sampler_last_step_seconds": progress.step_s,
        "lakerunner_sampler_ready": float(progress.is_ready),
        "lakerunner_sampler_resident_bytes": psutil.Process().memory_info().rss,
    }
    for name, number in parts.sampler.dedup_counts.items():
        found[f'lakerunner_sampler_dedup_total{{answered_by="{name}"}}'] = number
    for exporter in parts.exporters:
        found |= exporter.counts
        label = f'{{destination="{exporter.sender.name}"}}'
        found[f"lakerunner_sampler_export_broken{label}"] = float(exporter.is_broken)
    for one in parts.index.waiting_batches(org):
        if one.sampler == parts.options.name:
            label = f'{{destination="{one.destination}"}}'
            found[f"lakerunner_sampler_export_waiting_traces{label}"] = one.traces
            found[f"lakerunner_sampler_export_oldest_seconds{label}"] = one.oldest_s
            found[f"lakerunner_sampler_export_dead_traces{label}"] = one.dead_traces
    return render(families(found))


@get("/decisions/{trace_id:str}")
async def decisions(parts: Parts, request: Request[Any, Any, Any], trace_id: str) -> dict[str, Any]:
    """Explain what was decided about a trace, and from which aggregates."""
    await _authorise(parts, request)
    try:
        wanted = bytes.fromhex(trace_id)
    except ValueError as error:
        raise HTTPException("a trace id is 32 hex digits", status_code=400) from error
    if len(wanted) != ID_BYTES:
        raise HTTPException("a trace id is 32 hex digits", status_code=400)
    found = await to_thread.run_sync(parts.index.find_decisions, parts.options.org, wanted)
    if not found:
        raise HTTPException(
            f"nothing was decided about {trace_id}: its spans were not seen, it is not complete, or its "
            "decision is forgotten",
            status_code=404,
        )
    aggregates = await to_thread.run_sync(_aggregates, parts, found)
    shown = [{**asdict(one), "trace_id": trace_id.lower()} for one in found]
    return {"trace_id": trace_id.lower(), "decisions": shown, "aggregates": aggregates}


def _aggregates(parts: Parts, found: list[StoredDecision]) -> dict[str, Any] | None:
    """Compute what the policies saw, from the files that are left; None when none are."""
    one = next((one for one in found if one.sampler == parts.options.name), None)
    if one is None:
        return None
    rows = rows_of({"trace_id": one.trace_id}, 1)
    limits = parts.options.limits
    limits = replace(limits, scratch=limits.scratch.parent / "explain", memory_mb=EXPLAIN_MB, threads=1)
    with parts.trying:
        whole = WholeTraces(
            parts.follower, parts.options.policies, parts.options.shape, limits, parts.options.files
        )
        try:
            traces = whole.aggregate(id_array(rows), one.first_sequence, one.sequence)
        finally:
            whole.close()
    hidden = {"trace_id", "first_seq", "last_seq"}
    shown = [{k: v for k, v in row.items() if k not in hidden} for row in traces.to_pylist()]
    return shown[0] if shown else None


@post("/policies:backtest", status_code=200)
async def try_policies(parts: Parts, request: Request[Any, Any, Any], window_s: int = 3600) -> dict[str, Any]:
    """Decide the last commits with the policies of the body, and compare them with those in force."""
    await _authorise(parts, request)
    text = await request.body()
    if len(text) > MOST_POLICY_BYTES:
        raise HTTPException(f"policies of more than {MOST_POLICY_BYTES} bytes", status_code=413)
    try:
        new = read_policies(text).policy_set()
    except PolicyError as error:
        raise HTTPException(str(error), status_code=400) from error

    def tried() -> dict[str, Any]:
        if not parts.trying.acquire(blocking=False):
            raise HTTPException("another back-test is running: ask again later", status_code=429)
        try:
            first = parts.follower.start(window_s * 1000).sequence + 1
            files = parts.follower.files_between(first, parts.sampler.progress.sequence)
            limits = parts.options.limits
            limits = replace(limits, scratch=limits.scratch.parent / "backtest")
            paths = [TableFiles.named(one.path) for one in files]
            spans = Spans(
                paths, parts.options.shape, schema=parts.follower.schema, source=parts.options.files
            )
            return backtest(spans, new, parts.options.policies, limits).to_json()
        finally:
            parts.trying.release()

    return await to_thread.run_sync(tried)


async def _authorise(parts: Parts, request: Request[Any, Any, Any]) -> None:
    """Ask for a key of the organisation, unless the server can be reached from this machine only."""
    if parts.settings.sampler_host in LOOPBACK:
        return
    key = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    digest = hashlib.sha256(key.encode()).digest()
    found = await to_thread.run_sync(parts.index.find_api_key, digest)
    if found is None or found.org != parts.options.org:
        raise HTTPException("send a key of the organisation: Authorization: Bearer …", status_code=401)


def create_sampler_app(parts: Parts) -> Litestar:
    """Create the ASGI application, which starts and ends all threads."""

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        app.state.parts = parts
        parts.start()
        try:
            yield
        finally:
            await to_thread.run_sync(parts.close)

    return Litestar(
        route_handlers=[alive, ready, metrics, decisions, try_policies],
        lifespan=[lifespan],
        after_exception=[_log_error],
        dependencies={"parts": Provide(_parts, sync_to_thread=False)},
        openapi_config=None,
    )


async def _log_error(error: Exception, scope: Scope) -> None:
    if not isinstance(error, HTTPException):
        _log.error("%s failed", scope["path"], exc_info=error)


def _parts(state: State) -> Parts:
    found: Parts = state.parts
    return found


def serve(settings: Settings, config_file: Path) -> int:
    """Run until the process is told to stop."""
    logging.basicConfig(level=settings.log_level.upper())
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs whole addresses
    config = read_config_file(config_file, process_environment())
    for note in config.policies.notes:
        _log.warning("%s: %s", config_file, note)
    with opened(settings, config) as parts:
        uvicorn.run(
            host_check(create_sampler_app(parts), settings, settings.sampler_host),
            host=settings.sampler_host, port=settings.sampler_port, timeout_graceful_shutdown=5,
            **server_options(settings),
        )  # fmt: skip
    return 0
