"""The Flight door over any LakeQL, on an event loop in a thread of its own, or in a process of its own.

python -m tests.support.query.flight_door    answers lines: port, held, failures
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

from lakerunner_query.api.flight.server import FlightDoor, open_door
from lakerunner_query.api.shared.services import Services
from lakerunner_query.serving import Counters
from resources.index.account_types import ApiKey
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


class DoorProcess:
    """A door over a lake in memory, whose end nobody else would survive; use it as a context."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.query.flight_door"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.port = self._told("port")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:  # closes the pipes
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)

    @property
    def end(self) -> int | None:
        """Its exit code; None: it runs."""
        return self._process.poll()

    def failures(self) -> list[str]:
        """What went wrong inside without being foreseen."""
        found: list[str] = self._told("failures")
        return found

    def is_idle(self, seconds: float = 30.0) -> bool:
        """Wait until no answer is open and no result is being read."""
        until = time.monotonic() + seconds
        while (is_busy := self._told("held") > 0) and time.monotonic() < until:
            time.sleep(0.05)
        return not is_busy

    def _told(self, what: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class _Failures(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.getMessage()}: {record.exc_info[1] if record.exc_info else ''}")


def main() -> None:
    failures = _Failures()
    logging.getLogger("lakerunner_query").addHandler(failures)
    fake = FakeLakeQL(rows=1000)
    with flight_door(fake) as door:
        for line in sys.stdin:
            told = {
                "port": lambda: door.door.port,
                "held": lambda: fake.open_answers + door.door._results.count,
                "failures": lambda: failures.seen,
            }[line.strip()]
            print(json.dumps(told()), flush=True)
    fake.close()


if __name__ == "__main__":
    main()
