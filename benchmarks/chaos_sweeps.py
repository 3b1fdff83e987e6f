"""`lakerunner sweep` in a loop beside the storm, and the proof afterwards that it knows every orphan."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos_lake import Files, lake_files
from benchmarks.chaos_stack import CHAOS_SETTINGS, chaos_settings
from tests.support.stack_fixture import lakerunner

PAUSE_S = 12.0
DELETED = re.compile(r"([\d,]+) files of retired segments, deleted")
DONE, IN_THE_WAY, BUSY = 0, 1, 3


@dataclass(slots=True)
class Sweeper:
    data_dir: Path
    outcomes: Counter[str] = field(default_factory=Counter)
    deleted: int = 0
    problems: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.wait(PAUSE_S):
                self.once()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self.failures.append(error)

    def once(self) -> None:
        done = lakerunner(self.data_dir, "sweep", extra=CHAOS_SETTINGS)
        self.deleted += sum(int(count.replace(",", "")) for count in DELETED.findall(done.stdout))
        said = done.stderr.strip().splitlines()[-1:] or done.stdout.strip().splitlines()[:1] or [""]
        if done.returncode == DONE:
            self.outcomes["done"] += 1
        elif done.returncode == BUSY:
            self.outcomes["another was sweeping"] += 1
        elif "Traceback" in done.stderr:
            self.problems.append(done.stderr[-2000:])
            self.outcomes["crashed"] += 1
        else:
            self.outcomes[f"exit code {done.returncode}: {said[0][:100]}"] += 1


@dataclass(frozen=True, slots=True)
class Orphans:
    before: Files
    after: Files
    unlisted: set[str]
    """Files that no segment names and that a sweep did not note."""
    faults: list[str]


def sweep_orphans(data_dir: Path, orgs: Sequence[str]) -> Orphans:
    """List every organisation, then delete what was noted."""
    settings = chaos_settings(data_dir)
    unknown = lake_files(settings).unknown
    faults: list[str] = []
    for org in orgs:
        faults += _swept(data_dir, "--org", org)
    before = lake_files(settings)
    for org in orgs:
        faults += _swept(data_dir, "--org", org, "--all-orphans", orphan_s="0")
    after = lake_files(settings)
    return Orphans(before, after, (unknown & before.unknown) - before.orphans, faults)


def _swept(data_dir: Path, *arguments: str, orphan_s: str = "86400") -> list[str]:
    done = lakerunner(
        data_dir, "sweep", *arguments, extra={**CHAOS_SETTINGS, "LAKERUNNER_SWEEP_ORPHAN_S": orphan_s}
    )
    return [f"{done.stdout}\n{done.stderr}"] if done.returncode not in {DONE, BUSY} else []
