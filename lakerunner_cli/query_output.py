"""Writes rows of answers: as a table, CSV, JSON lines, or as plots of plain characters.

A table on a terminal is as wide as the terminal: a longer cell ends in `…`. Control characters are shown as
escapes, since lines of logs are written by others and a terminal would obey them.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Protocol, TextIO

from lakerunner_cli.command import CommandError
from lakerunner_cli.query_client import Column, display_width

Row = Sequence[Any]
MEASURED_ROWS = 500
"""Rows that decide how wide the columns of a table are."""
LEAST_WIDTH = 8
BARS, BLOCKS = "▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█"
MOST_SERIES = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
DIM, BOLD, PLAIN = "\033[2m", "\033[1m", "\033[0m"


class Writer(Protocol):
    """A form of output."""

    def begin(self, columns: Sequence[Column]) -> None: ...

    def rows(self, rows: Sequence[Row]) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Screen:
    """Shows an answer: a terminal with its width, or a file."""

    out: TextIO
    width: int = 0
    """Cells of a line; 0: any number."""
    colour: bool = False

    def dim(self, text: str) -> str:
        return f"{DIM}{text}{PLAIN}" if self.colour else text

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{PLAIN}" if self.colour else text


def shown(value: object) -> str:
    """Write a value in one line.

    >>> shown(None), shown(True), shown("a\\x1b[2J\\n"), shown({"a": 1}), shown(2.0)
    ('null', 'true', 'a\\\\x1b[2J\\\\n', '{"a": 1}', '2.0')
    """
    if isinstance(value, str):
        return _CONTROL.sub(lambda found: _ESCAPES.get(found[0]) or _escaped(found[0]), value)
    if value is None or isinstance(value, bool | dict | list):
        return shown(json.dumps(value, ensure_ascii=False))
    return str(value)


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def cut(text: str, width: int) -> str:
    """Shorten a text to so many cells; the last one tells that something was left out.

    >>> cut("payments", 5), cut("web", 5)
    ('paym…', 'web')
    """
    if display_width(text) <= width:
        return text
    while display_width(text) > width - 1:
        text = text[: max(0, min(len(text) - 1, width - 1))]
    return text + "…"


def padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - display_width(text))
    return space + text if right else text + space


class CsvWriter:
    """RFC 4180 with a line of names; nulls are empty, nested values are JSON."""

    def __init__(self, out: TextIO) -> None:
        self._writer = csv.writer(out, lineterminator="\n")

    def begin(self, columns: Sequence[Column]) -> None:
        self._writer.writerow([column.name for column in columns])

    def rows(self, rows: Sequence[Row]) -> None:
        self._writer.writerows([[_csv_cell(value) for value in row] for row in rows])

    def end(self) -> None:
        """Write nothing: the last row is the end."""


def _csv_cell(value: object) -> object:
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value


class JsonWriter:
    """One object per line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._names: list[str] = []

    def begin(self, columns: Sequence[Column]) -> None:
        self._names = unlike_names([column.name for column in columns])

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._out.write(json.dumps(dict(zip(self._names, row, strict=True)), ensure_ascii=False) + "\n")

    def end(self) -> None:
        """Write nothing: the last line is the end."""


def unlike_names(names: Sequence[str]) -> list[str]:
    """Number names that stand twice: an object would keep one of them only.

    >>> unlike_names(["a", "b", "a"])
    ['a', 'b', 'a_2']
    """
    found: list[str] = []
    for name in names:
        number, one = 1, name
        while one in found:
            number += 1
            one = f"{name}_{number}"
        found.append(one)
    return found


class TableWriter:
    """Columns side by side; their widths are those of the first rows."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._columns: Sequence[Column] = ()
        self._waiting: list[list[str]] = []
        self._widths: list[int] = []
        self._count = 0

    def begin(self, columns: Sequence[Column]) -> None:
        self._columns = columns

    def rows(self, rows: Sequence[Row]) -> None:
        self._count += len(rows)
        cells = [[shown(value) for value in row] for row in rows]
        if self._widths:
            self._write(cells)
            return
        self._waiting += cells
        if len(self._waiting) >= MEASURED_ROWS:
            self._begin_table()

    def end(self) -> None:
        if not self._widths:
            self._begin_table()
        self._screen.out.write(f"({self._count} row{'' if self._count == 1 else 's'})\n")

    def _begin_table(self) -> None:
        names = [shown(column.name) for column in self._columns]
        wanted = [max(map(display_width, one)) for one in zip(names, *self._waiting, strict=True)]
        self._widths = fitting(wanted, self._screen.width - 3 * len(wanted) + 1 if self._screen.width else 0)
        pairs = zip(names, self._widths, strict=True)
        cells = [padded(cut(name, width), width, right=False) for name, width in pairs]
        self._screen.out.write(" " + " │ ".join(map(self._screen.bold, cells)).rstrip() + "\n")
        self._screen.out.write(self._screen.dim("┼".join("─" * (width + 2) for width in self._widths)) + "\n")
        self._write(self._waiting)
        self._waiting = []

    def _write(self, rows: Sequence[Sequence[str]]) -> None:
        for row in rows:
            cells = []
            for text, width, column in zip(row, self._widths, self._columns, strict=True):
                fits = cut(text, width) if self._screen.width else text
                cell = padded(fits, width, right=column.is_number)
                cells.append(self._screen.dim(cell) if text == "null" else cell)
            self._screen.out.write(" " + " │ ".join(cells).rstrip() + "\n")


def fitting(wanted: Sequence[int], room: int) -> list[int]:
    """Share `room` among columns: narrow ones get what they want, wide ones an equal part of the rest.

    >>> fitting([4, 100, 60], 84), fitting([4, 100], 0)
    ([4, 40, 40], [4, 100])
    """
    if not room or sum(wanted) <= room:
        return list(wanted)
    found: dict[int, int] = {}
    places = sorted(range(len(wanted)), key=lambda place: wanted[place])
    for number, place in enumerate(places):
        share = (room - sum(found.values())) // (len(places) - number)
        found[place] = min(wanted[place], max(share, LEAST_WIDTH))
    return [found[place] for place in range(len(wanted))]


class RecordWriter:
    """One value per line, whole; for rows that are wider than the screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._names: list[str] = []
        self._count = 0

    def begin(self, columns: Sequence[Column]) -> None:
        names = [shown(column.name) for column in columns]
        width = max(map(display_width, names), default=0)
        self._names = [padded(name, width, right=False) for name in names]

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._count += 1
            self._screen.out.write(self._screen.dim(f"─[ {self._count} ]".ljust(24, "─")) + "\n")
            for name, value in zip(self._names, row, strict=True):
                self._screen.out.write(f"{self._screen.bold(name)} │ {shown(value)}\n")

    def end(self) -> None:
        self._screen.out.write(f"({self._count} row{'' if self._count == 1 else 's'})\n")


def seconds_of(value: object) -> float:
    """Read a time as it is sent; NaN where there is none.

    >>> seconds_of("1970-01-01T00:01:00.500000Z"), seconds_of("1970-01-02")
    (60.5, 86400.0)
    """
    if not isinstance(value, str):
        return math.nan
    at = datetime.fromisoformat(value)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def number_of(value: object) -> float:
    """Read a number; large integers and what JSON lacks are sent as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


def sparkline(points: Sequence[tuple[float, float]], start: float, end: float, width: int) -> str:
    """Draw the mean of the points of each interval; an interval without any is empty.

    >>> sparkline([(0, 1), (1, 2), (3, 8)], 0, 3, 4)
    '▁▂ █'
    """
    sums, counts = [0.0] * width, [0] * width
    for at, value in points:
        if math.isfinite(value) and math.isfinite(at):
            place = min(width - 1, int((at - start) / (end - start) * width)) if end > start else 0
            sums[place] += value
            counts[place] += 1
    means = [total / count if count else math.nan for total, count in zip(sums, counts, strict=True)]
    known = [mean for mean in means if math.isfinite(mean)]
    if not known:
        return " " * width
    low, span = min(known), max(known) - min(known)
    steps = len(BARS) - 1
    return "".join(
        BARS[round((mean - low) / span * steps) if span else 0] if math.isfinite(mean) else " "
        for mean in means
    )


def steps_between(times: Sequence[float]) -> int:
    """Count the points of a series that has one at every step, the least distance of two times.

    >>> steps_between([0, 60, 180, 60]), steps_between([5])
    (4, 1)
    """
    known = sorted(set(times))
    least = min((later - earlier for earlier, later in pairwise(known)), default=0)
    return round((known[-1] - known[0]) / least) + 1 if least else 1


def bar(value: float, most: float, width: int) -> str:
    """Draw a bar with a precision of an eighth of a cell.

    >>> bar(5, 8, 4), bar(-1, 8, 4), bar(8, 8, 4)
    ('██▌', '', '████')
    """
    eighths = round(value / most * width * 8) if most > 0 and math.isfinite(value) else 0
    if eighths <= 0:
        return ""
    return "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")


@dataclass(slots=True)
class _Series:
    """Points of one line of a plot."""

    points: list[tuple[float, float]] = field(default_factory=list)

    def numbers(self) -> list[float]:
        """Return the values in the order of time."""
        return [value for _, value in sorted(self.points) if math.isfinite(value)]


class PlotWriter:
    """Time series become sparklines, one per series; rows without a time become bars."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._columns: Sequence[Column] = ()
        self._time: int | None = None
        self._numbers: list[int] = []
        self._series: dict[tuple[str, ...], _Series] = {}
        self._left_out: set[tuple[str, ...]] = set()

    def begin(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._time = next((place for place, one in enumerate(columns) if one.is_time), None)
        self._numbers = [place for place, one in enumerate(columns) if one.is_number]
        if not self._numbers:
            raise CommandError("nothing to plot: the answer has no column of numbers")

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            at = 0.0 if self._time is None else seconds_of(row[self._time])
            labels = tuple(_label(value) for place, value in enumerate(row) if self._is_label(place))
            for place in self._numbers:
                name = (self._columns[place].name,) if len(self._numbers) > 1 else ()
                self._add((*labels, *name), at, number_of(row[place]))

    def end(self) -> None:
        width = self._screen.width or 100
        if not self._series:
            self._screen.out.write("(0 rows)\n")
        lines = self._sparklines(width) if self._time is not None else self._bars(width)
        self._screen.out.writelines(f"{line.rstrip()}\n" for line in lines)
        if self._left_out:
            self._screen.out.write(f"… and {len(self._left_out)} more: only {MOST_SERIES} are drawn\n")

    def _is_label(self, place: int) -> bool:
        return place != self._time and place not in self._numbers

    def _add(self, key: tuple[str, ...], at: float, value: float) -> None:
        if key not in self._series and len(self._series) >= MOST_SERIES:
            self._left_out.add(key)
            return
        self._series.setdefault(key, _Series()).points.append((at, value))

    def _sparklines(self, width: int) -> Iterator[str]:
        times = [at for one in self._series.values() for at, _ in one.points if math.isfinite(at)]
        if not times:
            return
        start, end = min(times), max(times)
        facts = {key: _facts(one.numbers()) for key, one in self._series.items()}
        fact_width = max(map(display_width, facts.values()))
        names = self._names(width // 3)
        name_width = max(map(display_width, names.values()))
        room = min(max(LEAST_WIDTH, width - name_width - fact_width - 3), steps_between(times))
        for key, one in self._series.items():
            line = sparkline(one.points, start, end, room)
            yield f"{padded(names[key], name_width, right=False)} {line}  {self._screen.dim(facts[key])}"
        ends = [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" for at in (start, end)]
        gap = max(1, room - sum(map(len, ends)))
        yield self._screen.dim(" " * (name_width + 1) + ends[0] + " " * gap + ends[1])

    def _bars(self, width: int) -> Iterator[str]:
        if not self._series:
            return
        names = self._names(width // 3)
        name_width = max(map(display_width, names.values()))
        values = [(names[key], value) for key, one in self._series.items() for _, value in one.points]
        texts = [_short(value) for _, value in values]
        text_width = max(map(len, texts))
        most = max((value for _, value in values if math.isfinite(value)), default=0.0)
        room = max(LEAST_WIDTH, width - name_width - text_width - 3)
        for (name, value), text in zip(values, texts, strict=True):
            yield f"{padded(name, name_width, right=False)} {text:>{text_width}} {bar(value, most, room)}"

    def _names(self, width: int) -> Mapping[tuple[str, ...], str]:
        return {key: cut(" ".join(key), max(width, LEAST_WIDTH)) for key in self._series}


def _label(value: object) -> str:
    """
    >>> _label({"job": "web", "env": "prod"}), _label("web")
    ('job=web, env=prod', 'web')
    """
    return shown(", ".join(f"{k}={v}" for k, v in value.items())) if isinstance(value, dict) else shown(value)


def _facts(numbers: Sequence[float]) -> str:
    if not numbers:
        return "no values"
    return f"min {_short(min(numbers))}  max {_short(max(numbers))}  last {_short(numbers[-1])}"


def _short(value: float) -> str:
    """
    >>> _short(1234567.0), _short(0.123456789), _short(12.0)
    ('1234567', '0.123457', '12')
    """
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


FORMS: Mapping[str, Callable[[Screen], Writer]] = {
    "table": TableWriter,
    "csv": lambda screen: CsvWriter(screen.out),
    "json": lambda screen: JsonWriter(screen.out),
}
