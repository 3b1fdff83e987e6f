"""The live view: a block that redraws itself on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from shutil import get_terminal_size
from typing import TextIO

from lakerunner_cli.demo.generator import Made
from lakerunner_cli.demo.watch import LINES, ORDERS, Seen

WIDTH = 30
PLAIN_EVERY_S = 5.0


class Screen:
    def __init__(self, seconds: float, stream: TextIO | None = None) -> None:
        self._seconds = seconds
        self._stream = stream or sys.stdout
        self._drawn = 0
        self._plain_at = -PLAIN_EVERY_S

    def show(self, elapsed_s: float, made: Made, seen: Seen) -> None:
        if self._stream.isatty():
            self._redraw(block(elapsed_s, self._seconds, made, seen))
        elif time.monotonic() - self._plain_at >= PLAIN_EVERY_S:
            self._plain_at = time.monotonic()
            self._stream.write(line(elapsed_s, made, seen) + "\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """A line that stays; the block goes on below it."""
        erase = f"\033[{self._drawn}F\033[J" if self._drawn else ""
        self._drawn = 0
        self._stream.write(f"{erase}{text}\n")
        self._stream.flush()

    def leave_block(self) -> None:
        """What is drawn now stays."""
        self._drawn = 0

    def _redraw(self, rows: list[str]) -> None:
        width = get_terminal_size().columns - 1  # a wrapped row would break the counting of rows
        up = f"\033[{self._drawn}F" if self._drawn else ""
        self._stream.write(up + "".join(f"\033[2K{row[:width]}\n" for row in rows))
        self._drawn = len(rows)


def block(elapsed_s: float, seconds: float, made: Made, seen: Seen) -> list[str]:
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


def line(elapsed_s: float, made: Made, seen: Seen) -> str:
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
