"""The front of a worker starts and watches its reader process.

`worker_health.py` decides whether the process has to be killed. A unit that obeys nobody, inside
a kernel or a regular expression, takes its process with it: it is answered with the limit that it broke,
while the other units come back unfinished, which sends them to other workers at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import psutil

from lakerunner_query.errors import LimitExceededError, QueryError
from lakerunner_query.fairness import Turn
from lakerunner_query.protocol.frames import (
    ANSWER,
    CRASHED,
    OVER_BUDGET,
    PID,
    REQUEST,
    UNFINISHED,
    Answered,
    Cancel,
    FromReader,
    Opened,
    Outcome,
    Ping,
    Pong,
    ToReader,
    Warm,
)
from lakerunner_query.worker_health import Look, RunningUnit, ThreadState
from resources.settings import Settings, process_environment

SETTLE_S = 0.2
"""Age from which a unit is watched: most have ended by then."""
FORK_S = 120.0
"""Seconds that a fork may take; before the first one, everything is imported."""
PROGRESS_S = 0.01
"""CPU seconds that count as progress, as the system counts them."""
SILENT_LOOKS = 2
"""Looks after which a reader may be called silent: a machine that froze wakes the front first."""
LARGEST_CONTROL = 16 << 20
ONE_HEAP = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Settings with which all threads take memory from the heap that a reader has touched.

The C library and Arrow look when they are loaded. Arrow's own pools hand out huge pages that were never
touched: clearing them took a third of the first query.
"""
_log = logging.getLogger(__name__)


class UnitReturnedError(QueryError):
    """The unit was not finished here, and may be elsewhere."""

    status = 503

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OverBudgetError(LimitExceededError):
    """The unit used more CPU time than one may: no other worker tries it, and a copy of it is ended."""

    code = OVER_BUDGET

    def __init__(self, cpu_s: float) -> None:
        super().__init__(
            f"a part of this query was stopped after {cpu_s:.0f} s of CPU time, more than one may use "
            "(LAKERUNNER_WORKER_UNIT_CPU_S): narrow the time range, select less, or ask for something cheaper"
        )


class Handle(Protocol):
    """The process of a reader; the walk through a request runs one as a thread."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...

    def wait(self) -> None: ...


Spawn = Callable[[Settings, Sequence[socket.socket]], Handle]
"""Starts a reader on these sockets, the control socket first; they are closed here afterwards."""


@dataclass(slots=True)
class ForkedReader:
    """A process that is not a child of this one, known by a file descriptor: its pid may be used again."""

    pid: int
    _descriptor: int | None = None

    @classmethod
    def of(cls, pid: int) -> ForkedReader:
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:  # it ended before anybody looked
            return cls(pid)

    def kill(self) -> None:
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until the process has ended; then its sockets and memory are free."""
        if self._descriptor is not None:
            select.select([self._descriptor], [], [])
            os.close(self._descriptor)
            self._descriptor = None


class Nursery:
    """A process that has imported everything and forks readers: one that is killed is replaced at once."""

    def __init__(self, module: str = "lakerunner_query.worker_reader") -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def __call__(self, settings: Settings, sockets: Sequence[socket.socket]) -> Handle:
        """Fork a reader; start the nursery if there is none."""
        if self._orders is None or self._process is None or self._process.poll() is not None:
            self._orders = self._start(settings)
        try:
            socket.send_fds(self._orders, [b"r"], [one.fileno() for one in sockets])
            told = self._orders.recv(PID.size, socket.MSG_WAITALL)
        except OSError:  # it hangs, or ended: the next reader gets another one
            self.close()
            raise
        if len(told) < PID.size:
            raise RuntimeError("the process that forks readers ended: see its log")
        return ForkedReader.of(PID.unpack(told)[0])

    def close(self) -> None:
        if self._orders is not None and self._process is not None:
            self._orders.close()
            self._process.kill()
            self._process.wait()

    def _start(self, settings: Settings) -> socket.socket:
        self.close()
        ours, theirs = socket.socketpair()
        ours.settimeout(FORK_S)
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**process_environment(), **settings.child_environment(), **ONE_HEAP},
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        return ours


@dataclass(slots=True)
class ReaderProcess:
    """One reader process, as the front sees it."""

    handle: Handle
    control: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    slots: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    process: psutil.Process
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_warm: bool = False
    killed_for: str = ""
    threads: tuple[int, ...] = ()
    running: dict[int, RunningUnit] = field(default_factory=dict)
    """Units at work, by number."""
    pong: Pong = field(default_factory=Pong)
    _pinged_at: float = 0.0
    """Time of the ping that is not answered; 0: there is none."""
    _looks: int = 0
    """Looks at the process since that ping."""
    _wants_metrics: bool = False
    _progress_at: float = field(default_factory=time.monotonic)
    _cpu_s: float = 0.0
    _threads: dict[int, ThreadState] = field(default_factory=dict)
    """The threads of slots at the last look."""
    _looked_at: float = field(default_factory=time.monotonic)
    _ponged: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def start(cls, settings: Settings, slots: int, spawn: Spawn) -> ReaderProcess:
        pairs = [socket.socketpair() for _ in range(slots + 1)]
        handle = await asyncio.to_thread(spawn, settings, [theirs for _, theirs in pairs])
        for _, theirs in pairs:
            theirs.close()
        streams = [await asyncio.open_connection(sock=ours, limit=LARGEST_CONTROL) for ours, _ in pairs]
        return cls(handle, streams[0], streams[1:], psutil.Process(handle.pid))

    @property
    def silent_s(self) -> float:
        """Seconds without a sign of life that was asked for."""
        return time.monotonic() - self._pinged_at if self._looks >= SILENT_LOOKS else 0.0

    async def listen(self) -> None:
        """Take in control messages until the process ends."""
        try:
            while text := await self.control[0].readline():
                self._take(msgspec.json.decode(text, type=FromReader))
        except ConnectionError:
            _log.debug("the reader process %s ended with messages unread", self.handle.pid)
        finally:
            self.ended.set()

    def _take(self, message: FromReader) -> None:
        match message:
            case Opened():
                self.threads = message.threads
                self.opened.set()
            case Warm():
                self.is_warm = True
            case Pong():
                self._pinged_at, self._looks = 0.0, 0
                self.pong = message if message.text else Pong(message.gauges, self.pong.text)
                self._wants_metrics &= not message.text
                self._ponged.set()

    async def run(self, turn: Turn, number: int, body: bytes) -> Answered:
        """Hand a unit to the thread of a slot, wait for its answer, and charge the organisation."""
        reader, writer = self.slots[turn.slot]
        unit = self.running[number] = RunningUnit(number, turn.slot, time.monotonic())
        cpu_s = 0.0
        try:
            writer.write(REQUEST.pack(number, len(body)) + body)  # one wake-up of the thread
            await writer.drain()
            _, cpu_s, told, size = ANSWER.unpack(await reader.readexactly(ANSWER.size))
            outcome = msgspec.json.decode(await reader.readexactly(told), type=Outcome)
            answer = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise self._why_ended(unit) from error
        finally:
            del self.running[number]
            turn.cost_s = max(cpu_s, unit.cpu_s)
        if unit.over_budget_at and outcome.code == "cancelled":
            raise OverBudgetError(unit.cpu_s)
        return Answered(outcome, turn.cost_s, answer)

    def _why_ended(self, unit: RunningUnit) -> QueryError:
        if unit.over_budget_at:
            return OverBudgetError(unit.cpu_s)
        if self.killed_for:
            return UnitReturnedError(UNFINISHED, f"the reader process was killed: {self.killed_for}")
        return UnitReturnedError(CRASHED, "the reader process ended while the unit ran")

    def _tell(self, message: ToReader) -> None:
        self.control[1].write(msgspec.json.encode(message) + b"\n")

    def cancel(self, number: int) -> None:
        if number in self.running and not self.ended.is_set():
            self._tell(Cancel(number))

    def stop(self, unit: RunningUnit) -> None:
        """Cancel a unit for what it or a copy of it used; who looks at it kills a process that goes on."""
        if not unit.over_budget_at:
            unit.over_budget_at = time.monotonic()
            self.cancel(unit.number)

    def ping(self) -> None:
        """Ask for a sign of life, one at a time: a stopped process would leave them in the pipe."""
        if not self._pinged_at:
            self._pinged_at = time.monotonic()
            self._ponged.clear()
            self._tell(Ping(self._wants_metrics))

    async def metrics(self, patience_s: float) -> Pong:
        """Return gauges and the text of metrics; those of the last time from a silent process."""
        self._wants_metrics = True
        try:
            async with asyncio.timeout(patience_s):
                while self._wants_metrics:
                    self.ping()
                    await self._ponged.wait()
        except TimeoutError:
            _log.warning("the reader process is silent: its metrics are missing")
        return self.pong

    def look(self) -> Look:
        """Look at the process, and charge running units with what it used since the last look."""
        now = time.monotonic()
        with self.process.oneshot():
            times, status = self.process.cpu_times(), self.process.status()
        used, self._cpu_s = times.user + times.system - self._cpu_s, times.user + times.system
        if used >= PROGRESS_S:
            self._progress_at = now
        self._charge(used, now)
        self._looked_at = now
        self._looks += 1 if self._pinged_at else 0
        return Look(
            self.silent_s,
            self._looks,
            now - self._progress_at,
            status == psutil.STATUS_STOPPED,
            status == psutil.STATUS_SLEEPING,
        )

    def _charge(self, used: float, now: float) -> None:
        """Charge units with the time of their threads, and with equal parts of what other threads used."""
        watched = [unit for unit in self.running.values() if now - unit.began > SETTLE_S]
        before, self._threads = self._threads, {}
        if not watched:
            return
        found = {one: ThreadState.read(self.process.pid, one) for one in self.threads}
        self._threads = {one: state for one, state in found.items() if state is not None}
        if before:
            own = {one: now_.cpu_s - before.get(one, now_).cpu_s for one, now_ in self._threads.items()}
            # while it warms up, most of it is not for units
            shared = max(0.0, used - sum(own.values())) / len(self.running) if self.is_warm else 0.0
            elapsed_s = max(now - self._looked_at, SETTLE_S)
            for unit in watched:
                thread = self.threads[unit.slot]
                is_ready = thread in self._threads and self._threads[thread].is_ready
                unit.charge(own.get(thread, 0.0) + shared, elapsed_s, is_ready=is_ready)

    def kill(self, why: str) -> None:
        self.killed_for = self.killed_for or why
        self.handle.kill()

    async def close(self) -> None:
        """Close all sockets, which ends the process."""
        for _, writer in (self.control, *self.slots):
            writer.close()
