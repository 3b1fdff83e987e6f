"""The PostgreSQL door over a LakeQL in memory, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from lakerunner_query.api.postgres.door import PostgresDoor
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.serving import Counters
from resources.index.account_types import ApiKey
from resources.objects.latency import LatencyTable
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.fake_lakeql import FakeLakeQL

KEYS = {"key-acme": ("acme", "read"), "key-globex": ("globex", "read"), "key-ingest": ("acme", "ingest")}


class FakeLocator:
    async def api_key(self, key_hash: bytes) -> ApiKey | None:
        for key, (org, role) in KEYS.items():
            if hashlib.sha256(key.encode()).digest() == key_hash:
                return ApiKey(org, role, key)
        return None


@dataclass
class FakeServices:
    settings: Settings
    lakeql: FakeLakeQL
    locator: FakeLocator = field(default_factory=FakeLocator)
    counters: Counters = field(default_factory=Counters)
    query_times: LatencyTable = field(
        default_factory=lambda: LatencyTable("lakerunner_query_seconds", ("api", "outcome"))
    )

    def watch(self, api: str) -> QueryWatch:
        return QueryWatch(api, self.query_times, self.counters)


class RunningDoor:
    """Use it as a context: the door is open inside."""

    def __init__(self, folder: Path, rows: int = 100, **settings: Any) -> None:
        self.lakeql = FakeLakeQL(rows=rows)
        self.services = FakeServices(Settings(data_dir=folder, **settings), self.lakeql)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.door: PostgresDoor

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        self.door = PostgresDoor(cast("Services", self.services), refusal_s=0.05)
        self.run(self.door.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self.door.close())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.lakeql.close()

    @property
    def port(self) -> int:
        return self.door.port

    def dsn(self, key: str = "key-acme", **options: str) -> str:
        more = "".join(f" {name}={value}" for name, value in options.items())
        return f"host=127.0.0.1 port={self.port} user=ann dbname=lake password={key}{more}"

    def eventually(self, holds: Callable[[], bool]) -> bool:
        """Wait until something holds."""
        return wait_for(holds, pause_s=0.005)
