"""The generator puts raw objects into the bucket and announces them.

An announcement that fails is repeated with the next one; a store or ingress that is away delays the shop's
telemetry and loses none of it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lakerunner_cli.command import CommandError
from lakerunner_cli.demo.calls import requests_of_second
from lakerunner_cli.demo.measurements import Totals
from lakerunner_cli.demo.otlp import pack, pack_spans
from lakerunner_cli.demo.shop import SECOND_NS, Line
from lakerunner_cli.upload import Destination
from lakerunner_cli.webhook import NewObject, notify
from resources.lake.layout import Signal, raw_key
from resources.objects.errors import AlreadyExistsError, StoreError
from resources.settings import Settings

OTHERS_EVERY_S = 5
"""Interval of spans and metrics; log lines are written every second."""


@dataclass(frozen=True, slots=True)
class Output:
    """Totals of the generator."""

    objects: int = 0
    lines: int = 0
    bytes: int = 0
    waiting: int = 0
    problem: str = ""


class Generator(threading.Thread):
    """The generator; `output` may be read from any thread, `stop()` finishes the current second."""

    def __init__(self, to: Destination, settings: Settings, seed: int, every_s: int = 1) -> None:
        super().__init__(name="demo-generator", daemon=True)
        self.output = Output()
        self._to, self._settings, self._seed, self._every_s = to, settings, seed, every_s
        self._stopping = threading.Event()
        self._waiting: list[NewObject] = []
        self._lately: list[Line] = []
        self._totals = Totals(time.time_ns())

    def run(self) -> None:
        second = int(time.time()) - 1
        while not self._stopping.is_set():
            second += 1
            self._stopping.wait(max(0.0, second + 1 - time.time()))
            if second % self._every_s == 0:
                self._tick(second)

    def stop(self) -> None:
        self._stopping.set()
        self.join(15)

    def _tick(self, second: int) -> None:
        try:
            self._put(second)
            refused = notify(self._waiting, self._settings).reasons
        except (StoreError, CommandError) as error:
            self.output = replace(self.output, problem=str(error), waiting=len(self._waiting))
        else:
            self._waiting = []
            self.output = replace(self.output, problem=refused[0] if refused else "", waiting=0)

    def _put(self, second: int) -> None:
        lines = requests_of_second(self._seed, second)
        self._lately += lines
        self._totals.observe(lines)
        size = self._put_object(Signal.LOGS, second, pack(lines))
        if second % OTHERS_EVERY_S == 0:
            size += self._put_object(Signal.TRACES, second, pack_spans(self._lately))
            size += self._put_object(Signal.METRICS, second, self._totals.pack((second + 1) * SECOND_NS))
            self._lately = []
        made = self.output
        self.output = replace(made, lines=made.lines + len(lines), bytes=made.bytes + size)

    def _put_object(self, signal: Signal, second: int, data: bytes) -> int:
        name = f"shop-{self._seed}-{second}.binpb.gz"
        hour = datetime.fromtimestamp(second, UTC)
        key = raw_key(self._to.org, self._to.collector, signal, hour, name)
        try:
            etag = self._to.store.put_new(key, data)
        except AlreadyExistsError:  # another demo on this stack made the same second: announce it again
            etag = self._to.store.head(key).etag
        self._waiting.append(NewObject(self._to.bucket, key, len(data), etag))
        self.output = replace(self.output, objects=self.output.objects + 1)
        return len(data)
