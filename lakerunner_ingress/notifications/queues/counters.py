"""What a poller counts. It serves nobody over HTTP, so its counters go where runs leave theirs: to the index.

Every ingress shows them at `/metrics`. Amounts that the index does not take are kept and added later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from lakerunner_ingress.telemetry import Telemetry
from resources.exposition import series
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError

MESSAGES = "lakerunner_notification_messages_total"
RECORDS = "lakerunner_notification_records_total"
FLUSH_S = 15.0


class QueueTelemetry(Telemetry):
    """Messages by their fate, and the pipeline's records by what became of them. For one thread."""

    def __init__(self, queue: str, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._queue = queue
        self._index = index
        self._clock = clock
        self._waiting: Counter[str] = Counter()
        self._flushed = clock()

    def count(self, outcome: str, records: int) -> None:
        super().count(outcome, records)
        self._add(RECORDS, outcome, records)

    def message(self, fate: str, messages: int = 1) -> None:
        self._add(MESSAGES, fate, messages)

    def flush(self, *, now: bool = False) -> None:
        """To the index, at most every `FLUSH_S` seconds unless `now`."""
        if not self._waiting or not (now or self._clock() - self._flushed >= FLUSH_S):
            return
        self._flushed = self._clock()
        try:
            self._index.add_counters(dict(self._waiting))
        except IndexUnavailableError:
            return  # what waits is added with the next flush
        self._waiting.clear()

    def _add(self, name: str, outcome: str, amount: int) -> None:
        if amount:
            self._waiting[series(name, queue=self._queue, outcome=outcome)] += amount
