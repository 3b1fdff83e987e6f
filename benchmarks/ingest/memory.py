"""P7: how much memory a cook task holds at most, in a process of its own (VmHWM, as the kernel counts it).

Two tasks: a full bin of objects (`cook_task_bytes`), and one object that is far larger than memory may be
when it is decompressed. Run by itself, with a folder, this module is that process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from benchmarks.ingest.corpus import HOUR_NS, START_NS, Corpus
from benchmarks.report import Record
from lakerunner_assets.cooked.task import cook_unit
from lakerunner_assets.cooked.units import Errand, Target, Unit, UnitObject
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from resources.settings import MIB, Settings

MUST, AIM = 1024, 512
TIMEOUT_S = 600


def measure(corpus: Corpus, task_bytes: int, large_bytes: int) -> list[Record]:
    with tempfile.TemporaryDirectory() as scratch:
        full = Path(scratch) / "full"
        _put(full, corpus, task_bytes)
        large = Path(scratch) / "large"
        _put_compressed(large, corpus, large_bytes)
        return [
            _record("P7", f"peak memory of a cook task of {task_bytes // MIB} MiB of objects", full),
            _record("P7-large", f"the same, one object of {large_bytes // MIB} MiB decompressed", large),
        ]


def _put(folder: Path, corpus: Corpus, total: int) -> None:
    """Whole objects until there are `total` bytes."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    written = 0
    while written < total:
        for data in corpus.objects:
            (raw / f"{written:012}.binpb").write_bytes(data)
            written += len(data)
            if written >= total:
                return


def _put_compressed(folder: Path, corpus: Corpus, total: int) -> None:
    """One object: requests end to end are one request, however many there are."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    written = 0
    with pa.CompressedOutputStream(str(raw / "large.binpb.zst"), "zstd") as sink:
        while written < total:
            for data in corpus.objects:
                sink.write(data)
                written += len(data)


def _record(identity: str, what: str, folder: Path) -> Record:
    command = [sys.executable, "-m", "benchmarks.ingest.memory", str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if finished.returncode:
        raise RuntimeError(f"{what}: the task's process failed: {finished.stderr[-800:]}")
    found = json.loads(finished.stdout.splitlines()[-1])
    value = found.pop("peak_mib")
    return Record(
        identity, what, value, "MiB", must=MUST, aim=AIM, ok=value <= MUST, counters=found
    )  # fmt: skip


def main() -> None:
    """Cook everything under FOLDER/raw as one task; the last line says what it took."""
    folder = Path(sys.argv[1])
    settings = Settings.load({"LAKERUNNER_DATA_DIR": str(folder)})
    keys = sorted(path.name for path in (folder / "raw").iterdir())
    objects = tuple(UnitObject(number, "raw", key, START_NS) for number, key in enumerate(keys, 1))
    unit = Unit(
        Signal.LOGS, "bench", "c", 0, objects, Target(1, 1), {}, {"raw": (f"file://{folder}/raw", "")},
        f"file://{folder}/lake", START_NS - 24 * HOUR_NS, HOUR_NS // 1000, settings.object_max_bytes,
        settings.cook_slice_bytes, DecodeOptions(),
    )  # fmt: skip
    before = _peak_mib()
    answer = cook_unit(Errand(unit), settings, lambda *_: None)
    faults = [each.error for each in answer.objects if each.fault is not None]
    if faults:
        raise RuntimeError(f"not cooked: {faults[:3]}")
    print(
        json.dumps(
            {
                "peak_mib": _peak_mib(),
                "before_the_task_mib": before,
                "rows": sum(each.rows for each in answer.objects),
                "objects": len(objects),
                "segments": len(answer.segments),
                "seconds": round(answer.seconds, 1),
            }
        )
    )


def _peak_mib() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("no VmHWM in /proc/self/status: this measurement needs Linux")
    return round(int(found[1]) / 1024, 1)


if __name__ == "__main__":
    main()
