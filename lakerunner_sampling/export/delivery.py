"""Batches leave the outbox: each destination has an exporter of its own, so that none waits for another.

    claim → load a chunk → encode → send → … → delete the batch

A batch is deleted once all of it was taken. A chunk is tried a few times in place; then what is left of the
batch rests, longer each time, and after many failures in a row one batch at a time probes the destination. A
chunk that is too large or refused is halved until the single traces are known that are to blame: those become
dead letters. A process that is killed leaves a lease behind that ends: its batch is sent again, whole.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_sampling.export.senders import Outcome, Reply, Sender
from lakerunner_sampling.loader import Loader, pack, unpack
from resources.exposition import series
from resources.index.postgres import IndexUnavailableError
from resources.index.sampling_contract import SamplerIndex
from resources.index.sampling_types import ExportLetter, SamplerRecord, StoredBatch

CLAIM_S = 60.0
"""Seconds after which somebody else may send a batch; it is extended before each attempt."""
LOOK_S = 0.5
ATTEMPTS_IN_PLACE = 3
FIRST_REST_S, LONGEST_REST_S = 0.5, 60.0
BREAK_AFTER = 5
"""Failures in a row after which a destination is probed only after the longest rest so far."""
MOST_ATTEMPTS = 2000
"""Attempts after which a batch becomes a dead letter: more than a day at the longest rest."""
_log = logging.getLogger(__name__)


class ClaimLostError(Exception):
    """Somebody else has claimed the batch since."""


@dataclass(slots=True)
class _Sending:
    """A batch under way."""

    batch: StoredBatch
    traces: pa.Table
    done: set[bytes] = field(default_factory=set)
    dead: dict[bytes, str] = field(default_factory=dict)
    payloads: int = 0

    def rest(self) -> pa.Table:
        """Return the traces of which nothing is settled yet."""
        settled = pa.array([*self.done, *self.dead], pa.binary(16))
        return self.traces.filter(pc.invert(pc.is_in(self.traces["trace_id"], settled)))


class LaterError(Exception):
    """The destination takes nothing now."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.error)
        self.rest_s = reply.rest_s


@dataclass(slots=True)
class Exporter:
    """Sends the batches of one destination, one at a time, the oldest first."""

    sender: Sender
    index: SamplerIndex
    loader: Loader
    record: Callable[[], SamplerRecord | None]
    """The claim of this process on its sampler; None: somebody else's."""
    sleep: Callable[[float], object] = time.sleep
    counts: Counter[str] = field(default_factory=Counter)
    awake: threading.Event = field(default_factory=threading.Event)
    """Set when there may be something to send."""
    failures: int = 0
    """Failures in a row."""
    probe_at: float = 0.0

    @property
    def is_broken(self) -> bool:
        """Tell if the destination is only probed."""
        return self.failures >= BREAK_AFTER

    def run(self, stop: threading.Event) -> None:
        """Send until `stop` is set; what is under way is finished first."""
        while not stop.is_set():
            try:
                if self.send_one():
                    continue
            except IndexUnavailableError as error:
                _log.warning("%s waits: the index does not answer: %s", self.sender.name, error)
            except Exception:  # noqa: BLE001 - a file that cannot be read now may be readable later
                self.counts[self._series("errors_total")] += 1
                _log.exception("%s: a batch could not be exported, it is tried again later", self.sender.name)
            self.awake.clear()
            self.awake.wait(LOOK_S)
        self.sender.close()

    def send_one(self) -> bool:
        """Send the oldest batch that is due; False when there is none, or it has to rest."""
        record = self.record()
        if record is None or time.monotonic() < self.probe_at:
            return False
        batch = self.index.claim_batch(record, self.sender.name, CLAIM_S)
        if batch is None:
            return False
        sending = _Sending(batch, unpack(batch.body))
        try:
            self._send_batch(sending)
        except ClaimLostError:
            _log.warning("%s: batch %d was claimed by another process", self.sender.name, batch.batch_id)
            return False
        except LaterError as error:
            return self._put_off(sending, str(error), error.rest_s)
        except BaseException:
            self.index.put_off_batch(batch, "could not be loaded", FIRST_REST_S * 4)
            raise
        self.failures, self.probe_at = 0, 0.0
        self._finish(sending)
        return True

    def _send_batch(self, sending: _Sending) -> None:
        """Send all chunks; a trace is done when the first chunk without it begins."""
        seen: set[bytes] = set()
        for chunk in self.loader.load(sending.traces):
            ids = set(pc.unique(chunk["trace_id"]).to_pylist())
            sending.done |= seen - ids
            self._send_chunk(sending, chunk)
            seen |= ids
        missing = sending.traces.num_rows - len(seen)
        if missing:
            self.counts[self._series("missing_traces_total")] += missing
            _log.error(
                "%s: the table no longer holds the spans of %d traces of batch %d", self.sender.name, missing,
                sending.batch.batch_id,
            )  # fmt: skip

    def _send_chunk(self, sending: _Sending, chunk: pa.Table) -> None:
        reply = self._try(sending, chunk)
        if reply.outcome is Outcome.TAKEN:
            self.counts[self._series("spans_total")] += chunk.num_rows
            return
        halves = list(_halves(chunk, by_trace=reply.outcome is Outcome.REFUSED))
        if len(halves) > 1:
            for half in halves:
                self._send_chunk(sending, half)
            return
        for trace_id in pc.unique(chunk["trace_id"]).to_pylist():
            sending.dead[trace_id] = reply.error
        _log.error("%s refuses %d spans for good: %s", self.sender.name, chunk.num_rows, reply.error)

    def _try(self, sending: _Sending, chunk: pa.Table) -> Reply:
        """Send one payload, a few times if need be."""
        payload = self.sender.encode(chunk)
        traces = len(pc.unique(chunk["trace_id"]))
        identity = f"{sending.batch.batch_id:012d}-{sending.payloads:05d}"
        sending.payloads += 1
        attempt = 0
        while True:
            if not self.index.beat_batch(sending.batch, CLAIM_S):
                raise ClaimLostError
            reply = self.sender.send(payload, traces, identity)
            self.counts[self._series("payloads_total", outcome=reply.outcome.value)] += 1
            attempt += 1
            if reply.outcome is not Outcome.LATER:
                self.counts[self._series("bytes_total")] += len(payload)
                return reply
            if self.is_broken or reply.rest_s or attempt >= ATTEMPTS_IN_PLACE:
                raise LaterError(reply)
            self.sleep(_jittered(FIRST_REST_S * 2.0**attempt))

    def _finish(self, sending: _Sending) -> None:
        if not self.index.finish_batch(sending.batch, _letter(sending)):
            _log.warning("%s: batch %d was sent twice", self.sender.name, sending.batch.batch_id)
            return
        self.counts[self._series("batches_total")] += 1
        self.counts[self._series("traces_total")] += sending.traces.num_rows - len(sending.dead)
        self.counts[self._series("dead_traces_total")] += len(sending.dead)

    def _put_off(self, sending: _Sending, error: str, rest_s: float) -> bool:
        """Let what is left of a batch rest; what was taken or refused is settled."""
        self.failures += 1
        batch, rest = sending.batch, sending.rest()
        if batch.attempts >= MOST_ATTEMPTS:
            sending.dead |= dict.fromkeys(rest["trace_id"].to_pylist(), error)
            self._finish(sending)
            return True
        delay_s = max(rest_s, _jittered(min(LONGEST_REST_S, FIRST_REST_S * 2.0 ** min(self.failures, 10))))
        self.probe_at = time.monotonic() + delay_s
        _log.warning("%s takes nothing, next attempt in %.1f s: %s", self.sender.name, delay_s, error)
        left = (pack(rest), rest.num_rows) if rest.num_rows < sending.traces.num_rows else None
        self.index.put_off_batch(batch, error, delay_s, left, _letter(sending))
        return False

    def _series(self, name: str, **labels: str) -> str:
        return series(f"lakerunner_sampler_export_{name}", destination=self.sender.name, **labels)


def _letter(sending: _Sending) -> ExportLetter | None:
    if not sending.dead:
        return None
    dead = sending.traces.filter(
        pc.is_in(sending.traces["trace_id"], pa.array([*sending.dead], pa.binary(16)))
    )
    return ExportLetter(dead.num_rows, pack(dead), next(iter(sending.dead.values())))


def _halves(chunk: pa.Table, *, by_trace: bool) -> Iterator[pa.Table]:
    """Cut a chunk in two between traces, or within its only trace where that may help."""
    ids = chunk["trace_id"].combine_chunks()
    count = chunk.num_rows
    changes = [at for at in range(1, count) if ids[at] != ids[at - 1]] if count > 1 else []
    if not changes and (by_trace or count < 2):
        yield chunk
        return
    middle = count // 2
    cut = min(changes, key=lambda at: abs(at - middle)) if changes else middle
    yield chunk.slice(0, cut)
    yield chunk.slice(cut)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 - spreads attempts, decides nothing
