"""Checks run beside the event loop: light bodies in threads, costly ones in processes of their own.

A costly body would hold the interpreter, and with it every other sender, for as long as it is parsed. In
front of threads and processes organisations take turns: that which used the least CPU seconds lately is
next, and none has all of them at once.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import IO, cast

from lakerunner_ingress.errors import IngressError, OverloadedError, UnavailableError
from lakerunner_ingress.receivers import checker_process, refusals
from lakerunner_ingress.receivers.check import check_opened
from lakerunner_ingress.receivers.checker_process import Job, Outcome
from lakerunner_ingress.receivers.forms import CheckedPush, Push
from lakerunner_ingress.receivers.lines import Line, Shares
from lakerunner_ingress.receivers.memory import Hold
from lakerunner_ingress.receivers.opening import field_cost, open_body

log = logging.getLogger(__name__)
LIGHT_BYTES, LIGHT_COST = 1 << 20, 2 << 20
"""Size and cost of fields up to which a body is checked in a thread: some 40,000 fields, 0.1 s at most."""
THREADS, PROCESSES = 2, 2
WALL_SECONDS = 120.0
"""Time after which a process is ended that makes no progress at all."""


class Checkers:
    """The threads and processes that check bodies."""

    def __init__(self, max_bytes: int, memory: int) -> None:
        self._max_bytes = max_bytes
        self._memory = memory
        shares = Shares()
        self._light: Line[Outcome | None] = Line(THREADS, shares)
        self._costly: Line[Outcome] = Line(PROCESSES, shares)
        self._processes = [CheckerProcess() for _ in range(PROCESSES)]

    async def check(self, org: str, body: bytes, push: Push, hold: Hold) -> Outcome:
        """Check a body; afterwards `hold` covers the valid part only."""
        if len(body) <= LIGHT_BYTES:
            outcome = await self._light.run(org, lambda: self._check_light(body, push, hold))
            if outcome is not None:
                return outcome
        return await self._costly.run(org, lambda: self._check_costly(body, push, hold))

    @property
    def waiting(self) -> int:
        """Number of bodies in the lines."""
        return self._light.waiting + self._costly.waiting

    def close(self) -> None:
        for process in self._processes:
            process.close()
        self._light.close()
        self._costly.close()

    def _check_light(self, body: bytes, push: Push, hold: Hold) -> tuple[float, Outcome | None]:
        """Check a body, unless it turns out to be costly."""
        began, before = time.thread_time(), hold.size
        most, opened = min(self._max_bytes, LIGHT_BYTES), 0
        try:
            data = open_body(body, push.encoding, most, hold)
            opened = len(data)
            if field_cost(data) > LIGHT_COST:
                hold.shrink_to(before)
                return time.thread_time() - began, None
            checked = check_opened(data, push, hold)
            spent = time.thread_time() - began
            return spent, Outcome(spent, checked, opened=opened)
        except refusals.TooLargeError as error:
            spent = time.thread_time() - began
            if not opened and most < self._max_bytes:
                hold.shrink_to(before)
                return spent, None
            return spent, refused(error, spent, max(opened, hold.size))
        except IngressError as error:
            spent = time.thread_time() - began
            return spent, refused(error, spent, max(opened, hold.size))

    def _check_costly(self, body: bytes, push: Push, hold: Hold) -> tuple[float, Outcome]:
        process = self._processes.pop()  # there are as many as threads in this line
        try:
            outcome = process.check(Job(push, self._max_bytes, self._memory), body, hold)
        finally:
            self._processes.append(process)
        return outcome.cpu_seconds, outcome


def refused(error: IngressError, cpu_seconds: float, opened: int) -> Outcome:
    return Outcome(cpu_seconds, None, type(error).__name__, str(error), opened)


def checked_push(outcome: Outcome) -> CheckedPush:
    """Return the checked push of an outcome, or raise its refusal."""
    if outcome.checked is not None:
        return outcome.checked
    kind = KINDS.get(outcome.refusal)
    if kind is None:
        raise RuntimeError(f"{outcome.refusal} while a push was checked: {outcome.text}")
    raise kind(outcome.text)


KINDS: dict[str, type[IngressError]] = {
    kind.__name__: kind
    for kind in (
        refusals.BadRequestError,
        refusals.TooLargeError,
        refusals.UnsupportedError,
        OverloadedError,
        UnavailableError,
    )
}
FAULTS = {-number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)}
"""Statuses of a process that a fault ended."""


class CheckerProcess:
    """The parent's side of a checker process, which is started with the first body and after each end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def check(self, job: Job, body: bytes, hold: Hold) -> Outcome:
        """Check a body, which blocks; a body that ends the process is refused."""
        try:
            process, jobs, outcomes = self._running()
        except OSError as error:
            unavailable = UnavailableError(
                f"no process to check this can be started ({error}); send it again"
            )
            return refused(unavailable, 0.0, len(body))
        watch = threading.Timer(WALL_SECONDS, process.kill)
        watch.start()
        try:
            for frame in (checker_process.ENCODER.encode(job), body):
                checker_process.write_frame(jobs, frame)
            jobs.flush()
            return _read_outcome(outcomes, hold)
        except (EOFError, BrokenPipeError):
            close_pipes(process)
            return ended(process.wait(), len(body))
        except BaseException:  # what it would say next belongs to this body
            process.kill()
            raise
        finally:
            watch.cancel()

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            close_pipes(process)

    def _running(self) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
        """Return the process with its input and output."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", checker_process.__name__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            return (
                self._process,
                cast("IO[bytes]", self._process.stdin),
                cast("IO[bytes]", self._process.stdout),
            )


def _read_outcome(stream: IO[bytes], hold: Hold) -> Outcome:
    read = checker_process.read_exactly
    outcome = checker_process.OUTCOMES.decode(read(stream, checker_process.read_length(stream)))
    size = checker_process.read_length(stream)
    try:
        hold.grow(size)
    except IngressError as error:
        for at in range(0, size, 1 << 20):
            read(stream, min(1 << 20, size - at))
        return refused(error, outcome.cpu_seconds, outcome.opened)
    data = read(stream, size)
    hold.shrink_to(size)
    if outcome.checked is not None:
        outcome = replace(outcome, checked=replace(outcome.checked, data=data))
    return outcome


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with suppress(BrokenPipeError):  # what was not written yet is written now, to nobody
            cast("IO[bytes]", pipe).close()


def ended(status: int, size: int) -> Outcome:
    """Return the refusal of a body whose check ended the process."""
    seconds = checker_process.CPU_SECONDS
    error: IngressError = UnavailableError(f"the process that checked it ended ({status}); send this again")
    if status == -signal.SIGPROF:
        error = refusals.TooLargeError(f"checking takes more than {seconds:.0f} s of CPU time")
    elif status in FAULTS:
        error = refusals.BadRequestError(f"the body ended the process that checked it ({status})")
    log.warning("a checker process ended with status %d, its push is refused: %s", status, error)
    return refused(error, seconds, size)
