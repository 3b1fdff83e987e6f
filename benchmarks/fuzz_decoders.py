"""Mutated payloads of every format and signal for the decoders: each must decode or be refused with a reason.

`python -m benchmarks.fuzz_decoders [--quick] [--cases N] [--seed S] [--resume FILE] [--case N]`

A payload is flipped, cut, spliced, its lengths are rewritten, and it is wrapped in gzip or zstd. Cases run in
a child process, so that one which ends it is found by its number and the run goes on; `--resume` keeps the
next number and all findings, `--case` repeats one case here. Exit code 1: a crash, a hang, or an error that
is not a reason.
"""

from __future__ import annotations

import argparse
import json
import mmap
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.fuzz_payloads import Case, cases_of, samples
from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.errors import DecodeError
from lakerunner_assets.decode.formats import Format
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.segments.readback import verify_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from resources.lake.options import DecodeOptions
from resources.settings import MIB

BATCH = 20_000
HANG_S = 60.0
MAX_BYTES = 16 * MIB
MEMORY_BYTES = 4096 * MIB
ARRIVAL_NS = 1_767_225_600_000_000_000
WRITTEN_EVERY = 16
"""One case in so many is written as a segment as well, and read back."""
STATE = struct.Struct("<q")


KEPT = ("seed", "next", "seconds", "outcomes", "findings")


@dataclass(slots=True)
class Tally:
    """Findings after a number of cases; the resume file."""

    seed: int
    next: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, object]] = field(default_factory=list)

    def save(self, path: Path | None) -> None:
        if path is not None:
            path.write_text(json.dumps({name: getattr(self, name) for name in KEPT}, indent=1))


def run_case(case: Case, folder: Path) -> str:
    """Decode one payload; return `decoded` or `refused`. Everything else is raised."""
    spec = SIGNALS[case.signal]
    request = Request(case.name, Place(1, 0, ARRIVAL_NS), DecodeOptions(), case.slice_bytes)
    try:
        with open_payload(case.data, MAX_BYTES, folder) as payload:
            tables = [part.table for part in decode(payload, request, spec.decoders())]
    except DecodeError as error:
        if not error.message:
            raise AssertionError("refused without a reason") from error
        return "refused"
    if case.number % WRITTEN_EVERY == 0 and sum(table.num_rows for table in tables):
        path = folder / "segment.parquet"
        identity = SegmentIdentity("fuzz", "c", spec.dataset, ARRIVAL_NS, "0" * 32)
        spec.write(tables, path, identity)
        verify_segment(path)
        path.unlink()
    return "decoded"


def serve(seed: int, start: int, count: int, state: Path) -> None:
    """Run cases in this process; keep the number of the running one in a file, print what was found."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcomes: Counter[str] = Counter()
    with state.open("r+b") as file, mmap.mmap(file.fileno(), STATE.size) as running:
        with tempfile.TemporaryDirectory() as folder:
            for case in cases_of(seed, start, count):
                STATE.pack_into(running, 0, case.number)
                try:
                    outcomes[f"{case.format} {run_case(case, Path(folder))}"] += 1
                except Exception:  # noqa: BLE001 - that is what is looked for
                    outcomes[f"{case.format} failed"] += 1
                    print(json.dumps(_finding(case, traceback.format_exc())), flush=True)
        STATE.pack_into(running, 0, start + count)
    print(json.dumps({"outcomes": outcomes}), flush=True)


def _finding(case: Case, what: str) -> dict[str, object]:
    return {"case": case.number, "signal": case.signal.value, "format": case.format, "what": what}


def run_batch(tally: Tally, count: int, state: Path) -> None:
    """Run a batch in a child; a child that ends or hangs is a finding, and the next begins behind it."""
    end = tally.next + count
    while tally.next < end:
        state.write_bytes(STATE.pack(tally.next))
        arguments = ["--serve", str(tally.seed), str(tally.next), str(end - tally.next), str(state)]
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.fuzz_decoders", *arguments], stdout=output
            )
            what = _watch(child, state)
            output.seek(0)
            for line in output:
                told = json.loads(line)
                if "outcomes" in told:
                    tally.outcomes.update(told["outcomes"])
                else:
                    tally.findings.append(told)
        (reached,) = STATE.unpack(state.read_bytes())
        if what:
            (case,) = cases_of(tally.seed, reached, 1)
            tally.findings.append(_finding(case, what))
            tally.outcomes[f"{case.format} {what}"] += 1
        tally.next = reached + 1 if what else end


def _watch(child: subprocess.Popen[bytes], state: Path) -> str:
    """Wait for the child, in its own CPU seconds; return how it ended if not well."""
    process = psutil.Process(child.pid)
    since, before = 0.0, b""
    while True:
        try:
            code = child.wait(2.0)
        except subprocess.TimeoutExpired:
            now, used = state.read_bytes(), sum(process.cpu_times()[:2])
            if now != before:
                since, before = used, now
            elif used - since > HANG_S:
                child.kill()
                child.wait()
                return f"computes for {HANG_S:.0f} s"
            continue
        if code == 0:
            return ""
        return f"ends the process: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"


def fuzz(seed: int, cases: int, resume: Path | None, batch: int = BATCH) -> Tally:
    """Run up to that many cases; go on where the file says."""
    samples()  # once here, so that a finding is described by the code that ran
    tally = Tally(seed)
    if resume is not None and resume.exists():
        kept = json.loads(resume.read_text())
        kept["outcomes"] = Counter(kept["outcomes"])
        tally = Tally(**kept)
    with tempfile.TemporaryDirectory() as folder:
        while tally.next < cases:
            began = time.monotonic()
            run_batch(tally, min(batch, cases - tally.next), Path(folder) / "case")
            tally.seconds += time.monotonic() - began
            tally.save(resume)
            rate = tally.next / max(tally.seconds, 1e-9)
            print(f"{tally.next:,} cases, {rate:,.0f}/s, {len(tally.findings)} findings", flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 cases")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from this file, and keep it")
    parser.add_argument("--case", type=int, help="run one case in this process")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        seed, start, count, state = options.serve
        serve(int(seed), int(start), int(count), Path(state))
        return 0
    if options.case is not None:
        (case,) = cases_of(options.seed, options.case, 1)
        print(case.signal.value, case.format, case.name, len(case.data), case.data[:64])
        with tempfile.TemporaryDirectory() as folder:
            print(run_case(case, Path(folder)))
        return 0
    tally = fuzz(options.seed, 5_000 if options.quick else options.cases, options.resume)
    for name, count in sorted(tally.outcomes.items()):
        print(f"{count:>12,} {name}")
    for finding in tally.findings[:20]:
        print(f"case {finding['case']} ({finding['signal']}, {finding['format']}): {finding['what']}")
    formats = {name.rsplit(" ", 1)[0] for name in tally.outcomes} & {each.value for each in Format}
    print(f"fuzz_decoders: {tally.next} cases of {len(formats)} formats, {len(tally.findings)} findings")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
