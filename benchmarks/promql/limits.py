"""What is too much: a selector of a million series, too many points, too deep, too slow.

Each has a clear error, memory stays bounded, and the workers that refused go on answering.
"""

from __future__ import annotations

import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.promql.corpus import END_MS, HOUR_MS, Floats
from benchmarks.promql.lake import BARE, LakeWriter, admit, table_of
from benchmarks.promql.ours import Ours
from benchmarks.report import Record
from benchmarks.tiers.scratch import scratch_server
from resources.lake.timecut import HOUR_NS

PER_SEGMENT = 250_000
JOBS = 100
NS_PER_MS = 1_000_000
MOST_MB = 2500.0
"""Of one worker whose setting is 2048 MB for DuckDB and what is decoded."""


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    path: str
    values: Mapping[str, str]
    status: int
    said: str
    """Somewhere in the answer."""


def questions(series: int) -> tuple[Question, ...]:
    end, start = END_MS / 1000, (END_MS - HOUR_MS) / 1000
    at, hour = {"time": str(end)}, {"start": str(start), "end": str(end)}
    one = 'count(wide{job="j1"})'
    deep = "(" * 20_000 + "1" + ")" * 20_000
    slow = 'max_over_time(rate(wide{job=~"j1.?"}[5m])[1h:1s])'
    return (
        Question("a part", "query", {"query": one, **at}, 200, f'"{series // JOBS}"'),
        Question("every series", "query", {"query": "count(wide)", **at}, 422, "query_max_series"),
        Question("by pattern", "query", {"query": '{__name__=~".+"}', **at}, 422, "query_max_series"),
        Question("points", "query_range", {"query": one, **hour, "step": "0.3"}, 400, "maximum resolution"),
        Question("depth", "query", {"query": deep, **at}, 400, "bad_data"),
        Question("time", "query_range", {"query": slow, **hour, "step": "1", "timeout": "1"}, 503, "timeout"),
        Question("a part, afterwards", "query", {"query": one, **at}, 200, f'"{series // JOBS}"'),
    )


def measure(series: int) -> list[Record]:
    with _running(series) as ours:
        before = [process.pid for process in ours._processes]  # noqa: SLF001
        wrong = {each.name: why for each in questions(series) if (why := _unlike(ours, each))}
        peaks = [_peak_mb(pid) for pid in before]
        alive = all(process.poll() is None for process in ours._processes)  # noqa: SLF001
    peak = max(peaks[:-1])
    facts = {"wrong": wrong, "workers_alive": alive}
    what = f"what is too much of {series} series is refused in words"
    is_right, fits = not wrong and alive, peak <= MOST_MB
    return [
        Record("limits", what, float(is_right), "yes=1", 1, 1, is_right, counters=facts),
        Record("limits-mb", "peak memory of a worker meanwhile", peak, "MB", MOST_MB, MOST_MB, fits),
    ]


@contextmanager
def _running(series: int) -> Iterator[Ours]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-limits-")))
        index, dsn = opened.enter_context(scratch_server())("limits")
        admit(index)
        writer = LakeWriter(folder / "lake", index)
        for first in range(0, series, PER_SEGMENT):
            table = table_of(_floats(range(first, min(series, first + PER_SEGMENT))))
            writer._write([table], (END_MS - HOUR_MS) * NS_PER_MS, HOUR_NS, (BARE,))  # noqa: SLF001
        ours = Ours(folder / "ours", folder / "lake", dsn)
        opened.callback(ours.stop)
        ours.start()
        yield ours


def _floats(numbers: range) -> Floats:
    """A sample a minute for two minutes before the end."""
    labels = tuple(
        (("__name__", "wide"), ("instance", f"i{number}"), ("job", f"j{number % JOBS}")) for number in numbers
    )
    times = np.tile(np.array([END_MS - 60_000, END_MS]), (len(labels), 1))
    return Floats(labels, times, np.ones(times.shape))


def _unlike(ours: Ours, asked: Question) -> str:
    status, body = _asked(ours, asked)
    if status == asked.status and asked.said in body:
        return ""
    return f"{status}, {body[:300]}; expected {asked.status} with {asked.said}"


def _asked(ours: Ours, asked: Question) -> tuple[int, str]:
    url = f"http://127.0.0.1:{ours.apis[BARE]._port}/prometheus/api/v1/{asked.path}"  # noqa: SLF001
    data = urllib.parse.urlencode(asked.values).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, {"Api-Key": BARE}), timeout=600
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _peak_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    fields: dict[str, Any] = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return float(fields["VmHWM"].split()[0]) / 1000
