"""The child process cooks units from its standard input and answers through a pipe.

Its memory is limited, so that an object which unfolds without end fails with an error instead of taking the
machine's memory.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import threading
import time
import traceback
from typing import IO

from lakerunner_assets.cooked.apart import ANSWERS, FAILS, FRAME, NO_OBJECT, PROGRESS, READS
from lakerunner_assets.cooked.task import cook_unit
from lakerunner_assets.cooked.units import decode_errand, encode
from resources.settings import Settings

ORPHAN_CHECK_S = 1.0


def main() -> None:
    """Cook until the standard input ends."""
    replies = os.fdopen(int(sys.argv[1]), "wb")
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[2]),), daemon=True).start()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    units = sys.stdin.buffer
    while head := units.read(FRAME.size):
        serve(units.read(FRAME.unpack(head)[1]), replies)


def serve(errand: bytes, replies: IO[bytes]) -> None:
    """Cook one unit and write the answer, or the error of the whole unit."""

    def tell(object_id: int | None, next_part: int) -> None:
        _send(replies, READS, PROGRESS.pack(NO_OBJECT if object_id is None else object_id, next_part))

    try:
        settings = Settings.load()
        limit_memory(settings.cook_memory_bytes)
        _send(replies, ANSWERS, encode(cook_unit(decode_errand(errand), settings, tell)))
    except Exception:  # noqa: BLE001 - the parent raises it
        _send(replies, FAILS, traceback.format_exc().encode())


def limit_memory(most: int) -> None:
    """Let allocations beyond `most` bytes fail."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def _send(replies: IO[bytes], kind: bytes, body: bytes) -> None:
    replies.write(FRAME.pack(kind, len(body)) + body)
    replies.flush()


def _end_with_parent(parent: int) -> None:
    """End the process when its parent has: whoever asked is gone, and another attempt may have begun."""
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_S)
    os._exit(1)
