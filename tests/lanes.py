"""Runs every test in lanes, three at a time: whole stacks, single services, and computing in two lanes.

`make test` runs this; arguments go to pytest. Tests of stacks and services mostly wait, so that one lane
alone leaves the processor idle, and more than three at a time make waits fail. The last lane begins when the
first one ends. The first lane prints as it goes, the others when they are done; the last line adds up all of
them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent
AT_ONCE = 3
OWN_LANES = {"acceptance": ("acceptance",), "integration": ("integration",)}
LAST_LANE = {"languages": ("architecture", "golden")}
WORD = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|warnings?|deselected)")
SUMMARY = re.compile(
    r"^=+ (.*\d+ (?:passed|failed|error|skipped|deselected).*) in [\d.]+s.*=+$", re.MULTILINE
)


def lanes() -> dict[str, tuple[str, ...]]:
    """The folders of each lane; every folder with tests is in exactly one."""
    elsewhere = {folder for lane in (OWN_LANES, LAST_LANE) for folders in lane.values() for folder in folders}
    computing = [
        folder.name
        for folder in sorted(ROOT.iterdir())
        if folder.is_dir() and folder.name not in elsewhere and any(folder.rglob("test_*.py"))
    ]
    return {**OWN_LANES, "computing": tuple(computing), **LAST_LANE}


def main() -> int:
    began = time.monotonic()
    running: list[subprocess.Popen[bytes]] = []
    with (
        tempfile.TemporaryDirectory(prefix="lakerunner-tests-") as scratch,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        logs = {name: Path(scratch) / f"{name}.log" for name in lanes()}
        ends = {
            name: pool.submit(_run, folders, Path(scratch) / name, logs[name], running)
            for name, folders in lanes().items()
        }
        print(f"lanes: {', '.join(ends)}; the first is shown now, the others afterwards", flush=True)
        try:
            codes = [_show(ends[name], logs[name], name) for name in ends]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
        texts = [log.read_text(errors="replace") for log in logs.values()]
    print(together(texts, time.monotonic() - began), flush=True)
    return max(abs(code) for code in codes)


def together(texts: list[str], seconds: float) -> str:
    """Join the failures and add up the summaries, in pytest's words.

    >>> together(["FAILED a.py::b - no\\n== 1 failed, 2 passed in 3.00s ==", "== 4 passed in 5.00s =="], 6)
    'FAILED a.py::b - no\\n==== 1 failed, 6 passed in 6.00s ===='
    """
    counts: Counter[str] = Counter()
    for text in texts:
        found = SUMMARY.findall(text)
        for number, word in WORD.findall(found[-1] if found else ""):
            counts[word.rstrip("s") if word.startswith("error") else word] += int(number)
    failed = [line for text in texts for line in text.splitlines() if re.match(r"(FAILED|ERROR) \S+::", line)]
    words = [f"{counts[w]} {w}" for w in ("failed", "passed", "skipped", "error", "deselected") if counts[w]]
    return "\n".join([*failed, f"==== {', '.join(words)} in {seconds:.2f}s ===="])


def _run(folders: tuple[str, ...], basetemp: Path, log: Path, running: list[subprocess.Popen[bytes]]) -> int:
    basetemp.mkdir()
    command = [sys.executable, "-m", "pytest", f"--basetemp={basetemp}/t", "-p", "no:cacheprovider"]
    paths = [str(ROOT / folder) for folder in folders]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--durations=25", *sys.argv[1:], *paths], stdout=output, stderr=subprocess.STDOUT
        )
    running.append(process)
    return process.wait()


def _show(end: Future[int], log: Path, name: str) -> int:
    """Show the lane's output until it ends."""
    print(f"---- {name}", flush=True)
    while not log.exists():
        time.sleep(0.5)
    with log.open("rb") as output:
        while True:
            ended = end.done()
            if chunk := output.read():
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            elif ended:
                return end.result()
            else:
                time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
