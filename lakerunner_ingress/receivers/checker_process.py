"""A process of its own checks costly bodies, so that nobody shares its interpreter.

`python -m lakerunner_ingress.receivers.checker_process` reads jobs from its standard input and writes
outcomes to its standard output, until the input ends. A job is a head and a body, an outcome a head and the
valid part; each is preceded by its length in eight bytes. The kernel ends the process when a job takes more
CPU seconds than it may, also inside a library.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from typing import IO

import msgspec

from lakerunner_ingress.errors import IngressError
from lakerunner_ingress.receivers.check import check_opened
from lakerunner_ingress.receivers.forms import CheckedPush, Push
from lakerunner_ingress.receivers.memory import Memory
from lakerunner_ingress.receivers.opening import open_body

log = logging.getLogger(__name__)
CPU_SECONDS = 15.0
NICE = 5
LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Job:
    """Everything but the body."""

    push: Push
    max_bytes: int
    memory: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job: a checked push without its data, or the class and text of a refusal."""

    cpu_seconds: float
    checked: CheckedPush | None = None
    refusal: str = ""
    text: str = ""
    opened: int = 0
    """Size of the opened body."""


ENCODER = msgspec.msgpack.Encoder()
JOBS = msgspec.msgpack.Decoder(Job)
OUTCOMES = msgspec.msgpack.Decoder(Outcome)


def write_frame(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(LENGTH_BYTES, "big"))
    stream.write(data)


def read_length(stream: IO[bytes]) -> int:
    """Return the length of the next frame; raise `EOFError` at the end of the stream."""
    return int.from_bytes(read_exactly(stream, LENGTH_BYTES), "big")


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def run(jobs: IO[bytes], outcomes: IO[bytes]) -> None:
    """Serve jobs until the input ends."""
    while True:
        try:
            job = JOBS.decode(read_exactly(jobs, read_length(jobs)))
            body = read_exactly(jobs, read_length(jobs))
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # its signal ends the process
        outcome, data = perform(job, body)
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_frame(outcomes, ENCODER.encode(outcome))
        write_frame(outcomes, data)
        outcomes.flush()


def perform(job: Job, body: bytes) -> tuple[Outcome, bytes]:
    """Check a body; return the outcome and the valid part."""
    began = time.process_time()
    memory = Memory(job.memory)
    with memory.hold() as hold:
        opened = 0
        try:
            data = open_body(body, job.push.encoding, job.max_bytes, hold)
            opened = len(data)
            checked = check_opened(data, job.push, hold)
        except IngressError as error:
            kind, text = type(error).__name__, str(error)
        except Exception as error:
            log.exception("unexpected error while a push was checked")
            kind, text = type(error).__name__, str(error)
        else:
            spent = time.process_time() - began
            return Outcome(spent, replace(checked, data=b""), opened=opened), checked.data
        return Outcome(time.process_time() - began, None, kind, text, max(opened, hold.size)), b""


def main() -> None:
    """Run with the standard streams; nothing else may write to the output."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # those are for the ingress, whose end ends the input
    os.nice(NICE)
    outcomes = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    run(sys.stdin.buffer, outcomes)


if __name__ == "__main__":
    main()
