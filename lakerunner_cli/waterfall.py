"""`Waterfall` draws one trace: a line per span, its bar on the time of the trace, marks for what matters.

    4bf9…4736  web POST /checkout  1.00 s  6 spans, 5 services, 3 errors
      service  span               duration     self │0      250 ms      500 ms         1.00 s
    ! web      POST /checkout       1.00 s   160 ms │▓▓▓▓▓▓░▓▓▓▓▓░░░░░░░░░░░░░░░░░▓▓▓▓▓
    ! payments └ charge             800 ms   175 ms │    ░░▓░░░░░░░░░░░░▓▓▓▓

The critical path is drawn full (`▓`), the rest of a span lightly (`░`). `!` marks an error, `<` a span that
begins before its parent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakerunner_cli.query_client import display_width
from lakerunner_cli.query_output import Screen, cut, padded, shown

PATH, REST, EVENT = "▓", "░", "·"
LEAST_BAR, MOST_NAME, DEFAULT_WIDTH = 16, 48, 120
MOST_DEPTH = 12
"""Levels that indent a name; deeper ones stay there."""
RED, PLAIN = "\033[31m", "\033[0m"
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
MOST_SECONDS = 60


def duration(ns: int) -> str:
    """
    >>> duration(800), duration(1_500_000), duration(-2_000_000_000), duration(90_000_000_000)
    ('800 ns', '1.50 ms', '-2.00 s', '1m30s')
    """
    if ns < 0:
        return "-" + duration(-ns)
    seconds = ns // _UNITS[0][0]
    if seconds >= MOST_SECONDS:
        return f"{seconds // 60}m{seconds % 60}s"
    for size, unit in _UNITS:
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns >= 100 * size else f"{ns / size:.2f} {unit}"
    return f"{ns} ns"


class Waterfall:
    """Writes a trace, as the query API answers it, to a screen."""

    def __init__(self, trace: Mapping[str, Any], screen: Screen, *, has_lines: bool) -> None:
        self._trace = trace
        self._screen = screen
        self._spans: Sequence[Mapping[str, Any]] = trace["spans"]
        self._width = screen.width or DEFAULT_WIDTH
        self._names = [self._label(one) for one in self._spans]
        services = [shown(one["service"]) for one in self._spans]
        self._service_width = min(max(map(display_width, [*services, "service"])), self._width // 6)
        wanted = max(map(display_width, [*self._names, "span"]))
        self._name_width = max(8, min(wanted, MOST_NAME, self._width // 3))
        self._bar_width = max(LEAST_BAR, self._width - self._service_width - self._name_width - 25)
        self._path: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for section in trace["critical_path"]:
            begin = section["offset_ns"]
            self._path[section["span"]].append((begin, begin + section["duration_ns"]))
        self._lines: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for line in trace["logs"]["lines"] if has_lines else ():
            self._lines[line["span_id"]].append(line)

    def draw(self) -> None:
        self._screen.out.writelines(f"{line.rstrip()}\n" for line in self._all_lines())

    def _all_lines(self) -> Iterator[str]:
        yield self._head()
        yield from (f"! {shown(one['text'])}" for one in self._trace["findings"])
        yield self._screen.dim(self._axis())
        for place, span in enumerate(self._spans):
            yield self._row(place, span)
            for line in self._lines.pop(span["span_id"], ()):
                yield self._log_line(line)
        if self._trace["truncated"]:
            yield f"… {self._trace['counts']['spans'] - len(self._spans)} more spans: --limit shows them"
        others = [line for lines in self._lines.values() for line in lines]
        if others:
            yield "log lines of no span that is shown:"
        yield from map(self._log_line, others)
        if self._trace["logs"]["truncated"]:
            yield f"… there are more than {len(self._trace['logs']['lines'])} log lines"
        yield from self._totals()

    def _head(self) -> str:
        trace, counts = self._trace, self._trace["counts"]
        root = self._spans[trace["root"]] if trace["root"] is not None else None
        name = self._screen.bold(f"{shown(root['service'])} {shown(root['name'])}") if root else "no root"
        facts = ", ".join(
            f"{counts[one]} {one if counts[one] != 1 else one[:-1]}"
            for one in ("spans", "services", "errors")
            if counts[one]
        )
        return f"{trace['trace_id']}  {name}  {duration(trace['duration_ns'])}  {facts}"

    def _axis(self) -> str:
        head = (
            f"  {padded('service', self._service_width, right=False)} "
            f"{padded('span', self._name_width, right=False)}  duration      self │"
        )
        total, cells = self._trace["duration_ns"], list(" " * self._bar_width)
        for part in range(4 if self._bar_width >= 60 else 2):
            parts = 4 if self._bar_width >= 60 else 2
            place = self._bar_width * part // parts
            text = duration(total * part // parts) if part else "0"
            cells[place : place + len(text)] = text
        end = duration(total)
        cells[self._bar_width - len(end) :] = end
        return head + "".join(cells)

    def _label(self, span: Mapping[str, Any]) -> str:
        depth = min(int(span["depth"]), MOST_DEPTH)
        indent = "  " * (depth - 1) + "└ " if depth else ""
        return indent + shown(span["name"])

    def _row(self, place: int, span: Mapping[str, Any]) -> str:
        mark = "!" if span["status"] == "error" else "<" if span["before_parent_ns"] else " "
        service = padded(cut(shown(span["service"]), self._service_width), self._service_width, right=False)
        name = padded(cut(self._names[place], self._name_width), self._name_width, right=False)
        times = f"{duration(span['duration_ns']):>9} {duration(span['self_ns']):>9}"
        row = f"{mark} {service} {name} {times} "
        row = self._red(row) if span["status"] == "error" else row
        return row + self._screen.dim("│") + self._bar(place, span)

    def _bar(self, place: int, span: Mapping[str, Any]) -> str:
        cells = [" "] * self._bar_width
        begin = span["offset_ns"]
        self._fill(cells, begin, begin + span["duration_ns"], REST)
        for first, last in self._path.get(place, ()):
            self._fill(cells, first, last, PATH)
        bar = "".join(cells).rstrip()
        return self._red(bar) if span["status"] == "error" else bar

    def _fill(self, cells: list[str], begin: int, end: int, char: str) -> None:
        """Draw an interval; the shortest takes one cell."""
        total = max(1, self._trace["duration_ns"])
        first = min(self._bar_width - 1, begin * self._bar_width // total)
        last = max(first + 1, min(self._bar_width, -(-end * self._bar_width // total)))
        if char == PATH and end - begin < total // self._bar_width:
            last = first + 1
        cells[first:last] = char * (last - first)

    def _log_line(self, line: Mapping[str, Any]) -> str:
        offset = duration(int(line["timestamp"]) - int(self._trace["start"]))
        level = line["metadata"].get("detected_level", "")
        text = f"  {EVENT} {offset:>9} {level.upper():5} {shown(line['message'])}"
        return self._screen.dim(cut(text, self._width) if self._screen.width else text)

    def _totals(self) -> Iterator[str]:
        """Say where the time of the root went."""
        told = [one for one in self._trace["services"] if one["critical_ns"]]
        if told:
            times = ", ".join(f"{shown(one['name'])} {duration(one['critical_ns'])}" for one in told[:5])
            yield f"critical path: {times}"
        if self._trace["exemplars"]:
            names = sorted({str(one["series"].get("__name__", "")) for one in self._trace["exemplars"]})
            yield f"exemplars: {', '.join(map(shown, names))}"

    def _red(self, text: str) -> str:
        return f"{RED}{text}{PLAIN}" if self._screen.colour else text
