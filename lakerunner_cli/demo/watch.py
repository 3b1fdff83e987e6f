"""The demo watches its telemetry in the index and through the query API.

On a terminal the view is a block that redraws itself, elsewhere a plain line every few seconds.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import Any, TextIO

import httpx

from lakerunner_cli.accounts import CommandIndex
from lakerunner_cli.demo.generator import Output
from lakerunner_cli.webhook import base_url
from resources.index.postgres.connections import IndexUnavailableError
from resources.settings import Settings

ORDERS = '{service_name="checkout"} |= "order"'
TIMEOUTS = '{service_name="payment"} |= "timeout"'
LINES = 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one moment; `None` is not known (yet)."""

    rows: int = 0
    samples: int = 0
    spans: int = 0
    pending_objects: int = 0
    parked_objects: int = 0
    freshness_s: float | None = None
    answer: tuple[str, ...] = ()
    answer_ms: float | None = None
    problem: str = ""


class Watcher:
    def __init__(self, index: CommandIndex, settings: Settings, org: str, key: str) -> None:
        self._index, self._org = index, org
        self._client = httpx.Client(
            base_url=base_url(settings.query_host, settings.query_port),
            headers={"x-cardinalhq-api-key": key},
            timeout=20,
        )

    def look(self) -> Snapshot:
        """Take a snapshot; a part that is away is part of it, never an error."""
        try:
            status = {row["signal"]: row for row in self._index.pipeline_status() if row["org"] == self._org}
            row = status.get("logs", {})
            newest = self._index.newest_queryable_ns(self._org, "logs")
        except IndexUnavailableError as error:
            return Snapshot(problem=str(error))
        lines, answer_ms, problem = self._ask()
        return Snapshot(
            rows=_number(row, "rows"),
            samples=_number(status.get("metrics", {}), "rows"),
            spans=_number(status.get("traces", {}), "rows"),
            pending_objects=sum(_number(each, "pending_objects") for each in status.values()),
            parked_objects=sum(_number(each, "parked_objects") for each in status.values()),
            freshness_s=None if newest is None else max(0.0, time.time() - newest / 1e9),
            answer=lines,
            answer_ms=answer_ms,
            problem=problem,
        )

    def close(self) -> None:
        self._client.close()

    def _ask(self) -> tuple[tuple[str, ...], float | None, str]:
        began = time.perf_counter()
        try:
            answer = self._client.get("/loki/api/v1/query_range", params={"query": ORDERS, "limit": LINES})
        except httpx.TransportError as error:
            return (), None, f"query API: {type(error).__name__}"
        if answer.status_code != 200:
            return (), None, f"query API: {answer.status_code} {answer.text[:200]}"
        lines = newest_lines(answer.json())
        return lines, (time.perf_counter() - began) * 1000 if lines else None, ""


def newest_lines(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the lines of a Loki answer, newest first, with the time of day (UTC)."""
    values = [value for stream in body["data"]["result"] for value in stream["values"]]
    values.sort(key=lambda value: int(value[0]), reverse=True)
    return tuple(f"{_clock(int(value[0]))}  {value[1].splitlines()[0]}" for value in values[:LINES])


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(time_ns // 1_000_000_000))


def _number(row: Any, name: str) -> int:
    return int(row.get(name, 0))


WIDTH = 30
PLAIN_EVERY_S = 5.0


class Screen:
    def __init__(self, seconds: float, stream: TextIO | None = None) -> None:
        self._seconds = seconds
        self._stream = stream or sys.stdout
        self._drawn = 0
        self._plain_at = -PLAIN_EVERY_S

    def show(self, elapsed_s: float, made: Output, seen: Snapshot) -> None:
        if self._stream.isatty():
            self._redraw(block(elapsed_s, self._seconds, made, seen))
        elif time.monotonic() - self._plain_at >= PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            self._stream.write(line(elapsed_s, made, seen) + "\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Print a line that stays; the block goes on below it."""
        erase = f"\033[{self._drawn}F\033[J" if self._drawn else ""
        self._drawn = 0
        self._stream.write(f"{erase}{text}\n")
        self._stream.flush()

    def leave_block(self) -> None:
        """Leave the current block on the screen."""
        self._drawn = 0

    def _redraw(self, rows: list[str]) -> None:
        width = get_terminal_size().columns - 1  # a wrapped row would break the counting of rows
        up = f"\033[{self._drawn}F" if self._drawn else ""
        self._stream.write(up + "".join(f"\033[2K{row[:width]}\n" for row in rows))
        self._drawn = len(rows)


def block(elapsed_s: float, seconds: float, made: Output, seen: Snapshot) -> list[str]:
    share = min(1.0, elapsed_s / seconds) if seconds else 1.0
    answer = [f"    {row}" for row in seen.answer] + [""] * (LINES - len(seen.answer))
    late = ", waiting for the first answer" if elapsed_s > seconds and not seen.answer else ""
    behind = f"pending {seen.pending_objects} objects, parked {seen.parked_objects}"
    took = f"  ({seen.answer_ms:.0f} ms)" if seen.answer_ms is not None else "  (no lines yet)"
    return [
        f"[{'#' * int(share * WIDTH):<{WIDTH}}] {elapsed_s:.0f} of {seconds:.0f} s{late}",
        f"objects in    {made.objects:>8,}   ({made.lines:,} lines, {made.bytes / 1e6:.2f} MB gzipped)",
        f"rows cooked   {seen.rows:>8,}   ({behind})",
        f"              {seen.samples:>8,} samples of metrics, {seen.spans:,} spans",
        f"freshness     {_seconds(seen.freshness_s):>8}   (age of the newest event a query can see)",
        f"query         {ORDERS}{took}",
        *answer,
        f"problem       {seen.problem or made.problem}" if seen.problem or made.problem else "",
    ]


def line(elapsed_s: float, made: Output, seen: Snapshot) -> str:
    newest = seen.answer[0] if seen.answer else "no lines yet"
    problem = seen.problem or made.problem
    return (
        f"{elapsed_s:5.0f} s  objects in {made.objects:,}  lines {made.lines:,}  "
        f"pending {seen.pending_objects}  rows cooked {seen.rows:,}  samples {seen.samples:,}  "
        f"spans {seen.spans:,}  freshness {_seconds(seen.freshness_s)}  "
        f"newest answer: {newest}" + (f"  ! {problem}" if problem else "")
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
