"""P7: how much memory a merge of about a gigabyte takes, in a process of its own, with the settings it has.

Run by itself, with a folder, this module is that process: it merges a little first, so that what counts is
the merge and not what is imported and compiled, and then everything in the folder.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.report import Record
from benchmarks.tiers.merge import HOUR_NS, START, in_child, log_segments
from lakerunner_assets.compacted.task import compact_unit
from lakerunner_assets.compacted.units import MergeUnit, Source
from lakerunner_assets.segments.merge.request import MergeKind, Window
from resources.settings import MIB, Settings

MUST, AIM = 1024, 512
ROW_BYTES = 75
"""Of the rows that are generated, as they lie in a segment."""
WARM_ROWS = 16_000
TIMEOUT_S = 3600


def measure(total_bytes: int) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="lakerunner-memory-") as name:
        lake = Path(name) / "lake"
        for folder, rows in (("warm", WARM_ROWS), ("full", total_bytes // ROW_BYTES)):
            (lake / folder).mkdir(parents=True)
            in_child(log_segments, lake / folder, rows)
        command = [sys.executable, "-m", "benchmarks.tiers.memory", name]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if finished.returncode:
        raise RuntimeError(f"the merging process failed: {finished.stderr[-800:]}")
    found = json.loads(finished.stdout.splitlines()[-1])
    grown = found.pop("grown_mib")
    what = f"peak memory growth of a compaction task that writes {found['written_bytes'] // 1_000_000:,} MB"
    return [Record("P7", what, grown, "MiB", must=MUST, aim=AIM, ok=grown <= MUST, counters=found)]


def main() -> None:
    folder = Path(sys.argv[1])
    settings = Settings.load({"LAKERUNNER_DATA_DIR": str(folder)})
    _merge(folder, "warm", 1, settings)
    before, own_before = _memory_mib("VmRSS"), _memory_mib("RssAnon")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    with _sampled("RssAnon") as own:
        answer_rows, written, sources, seconds = _merge(folder, "full", 2, settings)
    peak = _memory_mib("VmHWM")
    print(
        json.dumps(
            {
                "grown_mib": round(peak - before, 1),
                "peak_mib": peak,
                "grown_without_mapped_files_mib": round(max(own) - own_before, 1),
                "before_the_task_mib": before,
                "rows": answer_rows,
                "written_bytes": written,
                "sources": sources,
                "seconds": round(seconds, 1),
                "memory_budget_mib": settings.merge_memory_bytes // MIB,
            }
        )
    )


def _merge(folder: Path, name: str, batch_id: int, settings: Settings) -> tuple[int, int, int, float]:
    """As the task of a Spark worker does it, with the lake's files fetched and put."""
    sources = _sources(folder / "lake", sorted((folder / "lake" / name).glob("*.parquet")))
    total = sum(source.bytes for source in sources)
    unit = MergeUnit(
        batch_id=batch_id, attempt=0, kind=MergeKind.LOGS, org="acme", collector="eu", dataset="logs",
        sources=tuple(sources), target=Window(START, HOUR_NS), carve=(), generation=1,
        target_bytes=max(settings.merge_target_bytes, total * 11 // 10),
        memory_bytes=settings.merge_memory_bytes, lake_url=f"file://{folder}/lake",
    )  # fmt: skip
    answer = compact_unit(unit, settings)
    if answer.fault is not None:
        raise RuntimeError(answer.error)
    written = sum(output.segment.facts.bytes for output in answer.outputs)
    return answer.rows_written, written, len(sources), answer.seconds


def _sources(lake: Path, paths: Sequence[Path]) -> list[Source]:
    return [
        Source(f"{number:032x}", str(path.relative_to(lake)), _rows(path), path.stat().st_size)
        for number, path in enumerate(paths)
    ]


def _rows(path: Path) -> int:
    rows: int = pq.read_metadata(path).num_rows
    return rows


@contextmanager
def _sampled(name: str) -> Iterator[list[float]]:
    """What the system says of it while the block runs, twenty times a second."""
    found = [_memory_mib(name)]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            found.append(_memory_mib(name))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _memory_mib(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"no {name} in /proc/self/status: this measurement needs Linux")
    return round(int(found[1]) / 1024, 1)


if __name__ == "__main__":
    main()
