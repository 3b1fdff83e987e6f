"""Every test, in two processes side by side: those that wait for services, and those that compute.

`make test` runs this. One half alone leaves a core idle most of the time. What the computing half says is
shown when the other one is done; the last line adds both up.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent
WITH_SERVICES = ("acceptance", "integration")
WORD = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|warnings?|deselected)")
SUMMARY = re.compile(
    r"^=+ (.*\d+ (?:passed|failed|error|skipped|deselected).*) in [\d.]+s.*=+$", re.MULTILINE
)


def main() -> int:
    began = time.monotonic()
    computing = [
        folder.name
        for folder in sorted(ROOT.iterdir())
        if folder.is_dir() and folder.name not in WITH_SERVICES and any(folder.rglob("test_*.py"))
    ]
    with tempfile.TemporaryDirectory(prefix="lakerunner-tests-") as scratch:
        logs = [Path(scratch) / name for name in ("computing.log", "services.log")]
        print(f"beside these: {', '.join(computing)}, shown afterwards", flush=True)
        with logs[0].open("wb") as output:
            other = _start(computing, Path(scratch) / "c", output)
            mine = _start(WITH_SERVICES, Path(scratch) / "s", subprocess.PIPE)
            try:
                _show(mine, logs[1])
                codes = [other.wait(), mine.wait()]
            finally:
                for process in (mine, other):
                    process.kill()
        texts = [log.read_text(errors="replace") for log in logs]
    print(texts[0])
    print(together(texts, time.monotonic() - began), flush=True)
    return max(abs(code) for code in codes)


def together(texts: list[str], seconds: float) -> str:
    """What failed, and the sum of both summaries, in pytest's words.

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


def _start(folders: tuple[str, ...] | list[str], basetemp: Path, output: object) -> subprocess.Popen[bytes]:
    basetemp.mkdir()
    command = [
        sys.executable,
        "-m",
        "pytest",
        f"--basetemp={basetemp}/t",
        "-p",
        "no:cacheprovider",
        "--durations=25",
    ]
    paths = [str(ROOT / folder) for folder in folders]
    return subprocess.Popen([*command, *sys.argv[1:], *paths], stdout=output, stderr=subprocess.STDOUT)  # type: ignore[call-overload,no-any-return]


def _show(process: subprocess.Popen[bytes], copy: Path) -> None:
    """Its output as it comes, and into a file."""
    assert process.stdout is not None
    with copy.open("wb") as kept:
        while chunk := process.stdout.read1(65536):  # type: ignore[attr-defined]
            kept.write(chunk)
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
