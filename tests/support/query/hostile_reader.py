"""A query worker whose reader burns, crashes or hangs on units that say so in a line filter.

`serve` starts the front with readers that are this module: the process, its sockets and its supervision are
the real ones, only `answer_unit` looks for the words first.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from typing import Any

import uvicorn

from lakerunner_query import worker_app
from lakerunner_query.worker_process import Nursery
from resources.settings import Settings

ENDLESS = 10**9
BURN = {
    "burn-python": lambda _: re.match("(" + "a+" + ")+b", "a" * 100),  # the lock of the interpreter is held
    "burn-kernel": lambda _: hashlib.pbkdf2_hmac("sha256", b"", b"", ENDLESS),  # and here it is not
    "burn-politely": lambda cancellation: _spin(cancellation),  # noqa: PLW0108 - it stands below
    "crash": lambda _: os.abort(),
    "nap": lambda _: _nap(),
}
WAKE = "wake"
"""A file in the data directory that ends naps."""


def _spin(cancellation: Any) -> None:
    while True:
        cancellation.check()


def _nap() -> None:
    while not (Settings.load().data_dir / WAKE).exists():
        time.sleep(0.05)


def serve(settings: Settings) -> None:
    app = worker_app.create_worker_app(settings, Nursery(__name__))
    uvicorn.run(app, host=settings.worker_host, port=settings.worker_port, log_level="warning")


def main() -> None:
    from lakerunner_query import worker_reader
    from lakerunner_query.worker import unit_server

    answer_unit = unit_server.answer_unit

    def answer(unit: Any, readers: Any, answers: Any, cancellation: Any) -> Any:
        for word, burn in BURN.items():
            if f'"{word}"' in getattr(unit, "text", ""):
                burn(cancellation)
        return answer_unit(unit, readers, answers, cancellation)

    unit_server.answer_unit = answer
    worker_reader.main()


if __name__ == "__main__":
    main()
