"""Cooking runs in a child process, because a raw object may crash its reader.

    Spark's Python worker ── unit ──► child: reads, decodes, writes
                          ◄── "object 7", "object 8", …, answer ──

The child stays for the next units and dies with its parent. One that dies by a signal of its own names the
object it was reading: that object gets a reason, and the unit is cooked again at once without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO

from lakerunner_assets.cooked.units import Errand, Unit, decode_unit, encode_errand
from lakerunner_assets.task_results import Fault, ObjectAnswer
from resources.settings import process_environment

CRASHES = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSYS,
        signal.SIGTRAP,
    }
)
"""Signals that a process brings upon itself; others come from outside and blame no object."""
MAX_KILLS = 2
"""Children of one unit that may be killed from outside."""
READS, ANSWERS, FAILS = b"o", b"a", b"f"
FRAME = struct.Struct("<cq")
PROGRESS = struct.Struct("<qq")
NO_OBJECT = -1
_MAIN = "from lakerunner_assets.cooked.child import main; main()"


class ChildDiedError(RuntimeError):
    """The child ended without an answer."""

    def __init__(self, code: int, object_id: int, next_part: int) -> None:
        super().__init__(f"the process that cooks ended with {ending(code)}")
        self.code, self.object_id, self.next_part = code, object_id, next_part

    @property
    def blames_object(self) -> bool:
        return self.object_id != NO_OBJECT and -self.code in CRASHES


def ending(code: int) -> str:
    """Name a return code.

    >>> ending(-11), ending(3)
    ('SIGSEGV', 'exit code 3')
    """
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def cook_apart(payload: bytes) -> bytes:
    """Cook one encoded unit in the child and return its encoded answer; Spark calls it."""
    unit = decode_unit(payload)
    left_out: tuple[ObjectAnswer, ...] = ()
    part, kills = 0, 0
    while True:
        try:
            return _CHILD.cook(encode_errand(Errand(unit, left_out, part)))
        except ChildDiedError as death:
            part = death.next_part
            if death.blames_object:
                left_out = (*left_out, _crashed(unit, death))
                continue
            kills += 1
            if kills >= MAX_KILLS:
                raise


def _crashed(unit: Unit, death: ChildDiedError) -> ObjectAnswer:
    obj = next(each for each in unit.objects if each.object_id == death.object_id)
    error = f"{obj.bucket}/{obj.key}: the file crashed its reader ({ending(death.code)})"
    return ObjectAnswer(obj.object_id, fault=Fault.OBJECT, error=error)


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    replies: IO[bytes]


class Child:
    """The process that cooks, started when it is needed first and again when it has died."""

    def __init__(self) -> None:
        self._running: _Running | None = None
        self._lock = threading.Lock()

    def cook(self, errand: bytes) -> bytes:
        """Send a unit and return the answer; raise `ChildDiedError` if the child ended instead."""
        with self._lock:
            running = self._running = self._running or _start()
            try:
                return _ask(running, errand)
            except BaseException as error:
                self._running = None
                if not isinstance(error, _TaskFailedError):
                    running.process.kill()
                _reap(running)
                raise

    def stop(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            if self._running is not None:
                self._running.process.kill()
                _reap(self._running)
                self._running = None


class _TaskFailedError(RuntimeError):
    """An error of the whole unit, raised in the child."""


def _start() -> _Running:
    reading, writing = os.pipe()
    environment = {**process_environment(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, str(writing), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=2,  # a library that prints must not write between the answers
            pass_fds=(writing,),
            env=environment,
        )
    finally:
        os.close(writing)
    return _Running(process, os.fdopen(reading, "rb"))


def _ask(running: _Running, errand: bytes) -> bytes:
    """Send the unit; read what the child says until it answers or ends."""
    assert running.process.stdin is not None  # noqa: S101 - it is a pipe
    object_id = NO_OBJECT
    next_part = 0
    with contextlib.suppress(BrokenPipeError):  # it ended: the code says how
        running.process.stdin.write(FRAME.pack(ANSWERS, len(errand)) + errand)
        running.process.stdin.flush()
    while True:
        head = running.replies.read(FRAME.size)
        body = running.replies.read(FRAME.unpack(head)[1]) if len(head) == FRAME.size else b""
        if len(head) < FRAME.size or len(body) < FRAME.unpack(head)[1]:
            raise ChildDiedError(running.process.wait(), object_id, next_part)
        kind = FRAME.unpack(head)[0]
        if kind == READS:
            object_id, next_part = PROGRESS.unpack(body)
        elif kind == FAILS:
            raise _TaskFailedError(body.decode())
        else:
            return body


def _reap(running: _Running) -> None:
    running.replies.close()
    if running.process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            running.process.stdin.close()
    running.process.wait()


_CHILD = Child()
