"""`UnitServer` runs units in the threads of a reader process, one thread for each socket.

It counts the CPU seconds of each unit. A unit that has used some of them goes on with a lower priority, so
that the cheap queries of others do not wait for the processor. A thread cannot rise again: after such a unit
it ends, and another one takes its socket.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from lakerunner_query.errors import QueryError
from lakerunner_query.protocol.frames import (
    ANSWER,
    CANCELLED,
    REQUEST,
    Cancel,
    FromReader,
    Opened,
    Outcome,
    Ping,
    Pong,
    ToReader,
)
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.units import AnswerCache, Counts, Readers, answer_unit, decode_unit
from resources.duckdb import Cancellation, CancelledQueryError

CHEAP_S = 0.15
"""CPU seconds up to which a unit has the priority of all."""
NICENESS = 5
"""Niceness of the thread of a unit that used more: a third of what the others get."""
LEAST_PRIORITY = 19
SMALL_BYTES = 64 << 10
"""Size up to which an answer is copied behind its head, so that the front wakes up once."""
LOOK_S = 0.05
"""Seconds between two looks at the units that run."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Slot:
    """A socket and the thread that answers its units."""

    number: int
    connection: socket.socket
    thread: threading.Thread | None = None
    clock: int = 0
    """CPU clock of the thread; 0 between two threads."""
    began_s: float | None = None
    """CPU time of the thread when its unit began; None while it has none."""
    has_yielded: bool = False
    """True where the thread has a lower priority."""


class Clocks:
    """CPU seconds of this process that belong to no single unit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: set[int] = set()
        self._ended_s = 0.0

    def begin(self) -> int:
        """Keep the time of the calling thread apart; return its clock."""
        clock = time.pthread_getcpuclockid(threading.get_ident())
        with self._lock:
            self._own.add(clock)
        return clock

    def end(self, clock: int) -> None:
        """Forget the calling thread's clock: it ends with the thread."""
        with self._lock:
            self._ended_s += time.clock_gettime(clock)
            self._own.discard(clock)

    def shared_s(self) -> float:
        with self._lock:
            return time.process_time() - self._ended_s - sum(map(time.clock_gettime, self._own))


@dataclass(slots=True)
class UnitServer:
    """Answers units on sockets; the threads share all that is here."""

    readers: Readers
    answers: AnswerCache
    cache: BlockCache
    control: socket.socket
    metrics: Callable[[], str]
    """Metrics of the process in Prometheus' text format."""
    running: dict[int, Cancellation] = field(default_factory=dict)
    """Units at work, by number."""
    clocks: Clocks = field(default_factory=Clocks)
    slots: list[Slot] = field(default_factory=list)
    _events: queue.SimpleQueue[Slot | None] = field(default_factory=queue.SimpleQueue)
    """Slots that need a thread; None: a unit has begun."""
    _sending: threading.Lock = field(default_factory=threading.Lock)
    _is_resting: bool = False
    """Nobody looks at units until one begins: to wake up for each costs more than a small unit."""

    @property
    def gauges(self) -> dict[str, float]:
        return {
            "lakerunner_worker_cache_bytes": self.cache.used_bytes,
            "lakerunner_worker_cache_budget_bytes": self.cache.budget_bytes,
            **self.cache.requests.gauges(),
        }

    def open(self, connections: Sequence[socket.socket]) -> None:
        """Begin to take units."""
        self.slots = [Slot(*each) for each in enumerate(connections)]
        for slot in self.slots:
            self._start(slot)
        self.tell(self._opened())
        threading.Thread(target=self._pace, name="pace", daemon=True).start()

    def tell(self, message: FromReader) -> None:
        with self._sending:
            self.control.sendall(msgspec.json.encode(message) + b"\n")

    def obey(self, message: ToReader) -> None:
        match message:
            case Cancel():
                cancellation = self.running.get(message.number)
                if cancellation is not None:
                    cancellation.cancel()
            case Ping():
                self.tell(Pong(self.gauges, self.metrics() if message.metrics else ""))

    def _start(self, slot: Slot) -> None:
        slot.has_yielded = False
        slot.thread = threading.Thread(target=self._serve, args=(slot,), daemon=True)
        slot.thread.start()

    def _opened(self) -> Opened:
        return Opened(tuple(slot.thread.native_id or 0 for slot in self.slots if slot.thread is not None))

    def _pace(self) -> None:
        """Lower the priority of units that cost much, and replace their threads afterwards."""
        while True:
            slot = self._await_event()
            if slot is not None:
                self._start(slot)
                self.tell(self._opened())
            for each in self.slots:
                self._look(each)

    def _await_event(self) -> Slot | None:
        """Return a slot that needs a thread; None when it is time to look at the units."""
        self._is_resting = True  # before the look: a unit that begins behind it ends the rest
        try:
            self._is_resting = all(slot.began_s is None for slot in self.slots)
            return self._events.get(timeout=None if self._is_resting else LOOK_S)
        except queue.Empty:
            return None
        finally:
            self._is_resting = False

    def _look(self, slot: Slot) -> None:
        began_s, clock, thread = slot.began_s, slot.clock, slot.thread
        if began_s is None or not clock or slot.has_yielded or thread is None or thread.native_id is None:
            return
        try:
            if time.clock_gettime(clock) - began_s > CHEAP_S:
                slot.has_yielded = True  # before it is: the thread must not take another unit
                lower_priority(thread.native_id, NICENESS)
        except OSError:  # the thread ended just now
            return

    def _serve(self, slot: Slot) -> None:
        """Answer the units of one socket, one after the other, until it closes."""
        clock = slot.clock = self.clocks.begin()
        try:
            while (head := _receive(slot.connection, REQUEST.size)) is not None:
                number, size = REQUEST.unpack(head)
                body = _receive(slot.connection, size)
                if body is None:
                    return
                self._answer(slot, number, body)
                if slot.has_yielded:
                    break
            else:
                return
        finally:
            slot.clock = 0
            self.clocks.end(clock)
        self._events.put(slot)

    def _answer(self, slot: Slot, number: int, body: bytearray) -> None:
        cancellation = self.running[number] = Cancellation()
        meter = CpuMeter(self)
        slot.began_s = time.thread_time()
        if self._is_resting:
            self._events.put(None)
        try:
            outcome, answer = self.run(body, cancellation)
        finally:
            cpu_s = meter.seconds()
            slot.began_s = None
            del self.running[number]
            cancellation.cancel()  # ends what the unit may have left running
        told = msgspec.json.encode(outcome)
        head = ANSWER.pack(number, cpu_s, len(told), len(answer)) + told
        is_small = len(answer) <= SMALL_BYTES
        slot.connection.sendall(head + answer if is_small else head)
        if not is_small:
            slot.connection.sendall(answer)

    def run(self, body: bytearray, cancellation: Cancellation) -> tuple[Outcome, bytes]:
        """Answer one unit; every failure becomes an outcome."""
        counts: Counts
        try:
            answer, counts = answer_unit(decode_unit(body), self.readers, self.answers, cancellation)
        except CancelledQueryError:
            return Outcome(CANCELLED, "cancelled"), b""
        except QueryError as error:
            return Outcome(error.status, error.code, error.message), b""
        except Exception:  # noqa: BLE001 - the thread goes on; the caller gets the failure
            _log.exception("unforeseen failure of a unit of work")
            return Outcome(
                500, "internal", "internal error; the log of the query worker has the details"
            ), b""
        return Outcome(counts=dict(counts)), answer


class CpuMeter:
    """CPU seconds of one unit: its thread's, and its part of those of threads that work for all units."""

    def __init__(self, server: UnitServer) -> None:
        self._server = server
        self._own, self._shared = time.thread_time(), server.clocks.shared_s()

    def seconds(self) -> float:
        shared = self._server.clocks.shared_s() - self._shared
        return time.thread_time() - self._own + max(0.0, shared) / max(1, len(self._server.running))


def lower_priority(thread: int, by: int) -> None:
    """Let a thread give way to others of this process, whatever priority that has."""
    os.setpriority(
        os.PRIO_PROCESS, thread, min(LEAST_PRIORITY, os.getpriority(os.PRIO_PROCESS, os.getpid()) + by)
    )


def _receive(connection: socket.socket, size: int) -> bytearray | None:
    """Return exactly so many bytes; None at the end of the connection."""
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            return None
        at += count
    return found
