"""The Flight door over any LakeQL, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from lakerunner_query.api.flight.server import FlightDoor, open_door
from lakerunner_query.api.shared.services import Services
from lakerunner_query.serving import Counters
from resources.index.types import ApiKey
from resources.settings import Settings
from tests.support.patience import PATIENCE_S
from tests.support.query.fake_lakeql import FakeLakeQL

KEYS = {
    "key-acme": ApiKey("acme", "read", "a"),
    "key-globex": ApiKey("globex", "admin", "g"),
    "key-writer": ApiKey("acme", "write", "w"),
}


class Keys:
    """The part of `Locator` that knows keys."""

    async def api_key(self, key_hash: bytes) -> ApiKey | None:
        return {hashlib.sha256(key.encode()).digest(): found for key, found in KEYS.items()}.get(key_hash)


@dataclass
class OpenDoor:
    """A door that listens, and the loop its work runs on."""

    door: FlightDoor
    lakeql: FakeLakeQL
    services: Services
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    @property
    def address(self) -> str:
        return f"grpc://127.0.0.1:{self.door.port}"


@contextmanager
def flight_door(lakeql: FakeLakeQL, **more: Any) -> Iterator[OpenDoor]:
    settings = Settings(internal_token="internal", query_flight_port=0, **more)
    nothing = cast("Any", None)
    services = Services(
        settings=settings,
        locator=cast("Any", Keys()),
        dispatcher=nothing,
        engine=nothing,
        lakeql=cast("Any", lakeql),
        counters=Counters(),
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

    try:
        door = run(open_door(services))
        try:
            yield OpenDoor(door, lakeql, services, run)
        finally:
            run(door.stop())
    finally:
        run(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
