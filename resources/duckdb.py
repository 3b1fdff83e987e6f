"""DuckDB runs as a bounded engine. One locked instance per process, one cursor per query.

Memory, threads and spill directory are fixed. Only the named directories can be read, and the files of one
file system that is given. No setting can be changed afterwards, so that not even SQL written by users reaches
a file or the network. An open result owns its connection: hence a cursor per query, closed when the query
ends, and interrupted from outside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa
from fsspec.spec import AbstractFileSystem

Answer = TypeVar("Answer")
INTERRUPT_AGAIN_S = 0.05


class CancelledQueryError(RuntimeError):
    """Query whose client is gone; the work was stopped half-way."""


@dataclass(frozen=True, slots=True)
class DuckLimits:
    memory_mb: int
    threads: int
    spill: Path
    readable: tuple[Path, ...]
    files: AbstractFileSystem | None = None
    """Files beside those on disk, named by its protocol."""
    in_order: bool = False
    """True where rows must leave in the order in which they came."""
    keeps_footers: bool = False
    """True where footers of Parquet files stay in memory, as far as its limit lets them."""


class DuckSession:
    """DuckDB's instance; `cursor()` is the only way in."""

    def __init__(self, limits: DuckLimits) -> None:
        limits.spill.mkdir(parents=True, exist_ok=True)
        self._root = duckdb.connect()
        if limits.files is not None:
            self._root.register_filesystem(limits.files)
        for statement in _lock_down(limits):
            self._root.execute(statement)
        self._warm_up()

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._root.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    def _warm_up(self) -> None:
        """Query an Arrow table once, which imports pandas: seconds, better now than in a query."""
        with self.cursor() as cursor:
            cursor.register("one_row", pa.table({"one": [1]}))
            cursor.sql("SELECT one FROM one_row").to_arrow_table()

    def close(self) -> None:
        self._root.close()


class Cancellation:
    """Flag that one thread sets and a query in another thread obeys."""

    def __init__(self) -> None:
        self._asked = False
        self._lock = threading.Lock()
        self._working: dict[threading.Event, duckdb.DuckDBPyConnection] = {}
        """Cursors at work, by what is set when their work has ended."""
        self._interrupters: dict[threading.Event, threading.Thread] = {}

    def cancel(self) -> None:
        """Set the flag, and interrupt what is at work; a thread repeats that, and nobody waits for it."""
        with self._lock:
            is_first, self._asked = not self._asked, True
            for ended, cursor in self._working.items() if is_first else ():
                self._interrupt(cursor, ended)

    @property
    def cancelled(self) -> bool:
        return self._asked

    def check(self) -> None:
        if self._asked:
            raise CancelledQueryError("the query was cancelled")

    def run(self, cursor: duckdb.DuckDBPyConnection, work: Callable[[], Answer]) -> Answer:
        """Do `work` on `cursor`; `cancel()` interrupts it within milliseconds.

        The interrupt is repeated until the work has ended: one that arrives before DuckDB has begun is lost.
        """
        ended = threading.Event()
        with self._lock:
            self.check()
            self._working[ended] = cursor
        try:
            return work()
        except duckdb.InterruptException as error:
            raise CancelledQueryError("the query was cancelled") from error
        finally:
            ended.set()
            with self._lock:
                del self._working[ended]
                interrupter = self._interrupters.pop(ended, None)
            if interrupter is not None:
                interrupter.join()  # the cursor is closed next

    def _interrupt(self, cursor: duckdb.DuckDBPyConnection, ended: threading.Event) -> None:
        """Start a thread: only a query that is cancelled pays for one."""

        def repeat() -> None:
            while not ended.is_set():
                cursor.interrupt()
                ended.wait(INTERRUPT_AGAIN_S)

        self._interrupters[ended] = threading.Thread(target=repeat, daemon=True)
        self._interrupters[ended].start()


def _lock_down(limits: DuckLimits) -> list[str]:
    named = [f"{path}/" for path in (*limits.readable, limits.spill)]
    if limits.files is not None:
        named.append(f"{limits.files.protocol}:///")
    folders = ", ".join(map(_quoted, named))
    return [
        f"SET memory_limit = '{int(limits.memory_mb)}MB'",
        f"SET threads = {int(limits.threads)}",
        f"SET temp_directory = {_quoted(str(limits.spill))}",
        "SET enable_progress_bar = false",
        f"SET preserve_insertion_order = {str(limits.in_order).lower()}",
        f"SET parquet_metadata_cache = {str(limits.keeps_footers).lower()}",
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET TimeZone = 'UTC'",
        "SET enable_external_file_cache = false",  # the block cache is one
        f"SET allowed_directories = [{folders}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
