"""What the steps of a sweep work with, and how they bound themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from lakerunner_assets.sweep.plan import Policy
from lakerunner_assets.sweep.report import Report
from resources.index.contract import SweepIndex
from resources.index.sweeping_types import Retention
from resources.objects.client import ObjectStore
from resources.objects.errors import StoreError
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError

Tell = Callable[[str, int, int], None]
"""(what, done so far, of how many)"""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Sweep:
    """What the steps of one sweep work with."""

    index: SweepIndex
    settings: Settings
    policy: Policy
    retentions: Sequence[Retention]
    """Those in force."""
    org: str
    """Empty: all."""
    now_ns: int
    ends: float
    """By the monotonic clock; checked between transactions."""
    report: Report
    tell: Tell

    @property
    def dry(self) -> bool:
        return self.report.dry_run

    def lake(self) -> ObjectStore:
        return open_store(self.settings.require("lake_url"), self.settings)

    def chunks(self, what: str, items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
        """Until the time is up."""
        for start in range(0, len(items), size):
            if time.monotonic() >= self.ends:
                self.report.unfinished = True
                return
            yield items[start : start + size]
            self.tell(what, min(start + size, len(items)), len(items))

    @contextmanager
    def reported(self, what: str) -> Iterator[None]:
        """Faults of a store or its configuration end the block, not the sweep."""
        try:
            yield
        except (StoreError, SettingsError) as error:
            self.report.problems.append(f"{what}: {error}")

    def note_limit(self, found: Sequence[object]) -> None:
        """A list as long as it may be: there is more."""
        self.report.unfinished |= len(found) >= self.policy.files
