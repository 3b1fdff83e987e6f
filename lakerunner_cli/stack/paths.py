"""The layout of a data directory.

All files of a local stack are under one directory, which can be deleted, moved or kept across restarts. Each
component owns the directory of its name; `run/` belongs to the supervisor.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

OWNED = ("lake", "raw", "dagster", "logs", "run", "kafka", "spark", "java")


@dataclass(frozen=True, slots=True)
class StackPaths:
    root: Path

    @property
    def state(self) -> Path:
        return self.root / "run" / "state.json"

    @property
    def lock(self) -> Path:
        return self.root / "run" / "lock"

    @property
    def env_file(self) -> Path:
        return self.root / "stack.env"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def create(self) -> None:
        for name in OWNED:
            (self.root / name).mkdir(parents=True, exist_ok=True)
