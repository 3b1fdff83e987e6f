"""The layout of a data directory.

All files of a local stack are under one directory, which can be deleted, moved or kept across restarts. Each
component owns the directory of its name; `run/` belongs to the supervisor. Other users can read none of it.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

OWNED = ("lake", "raw", "dagster", "logs", "run", "kafka", "spark", "java", "query-worker", "query-jobs")
OTHERS_READ_OR_WRITE = 0o066
PRIVATE_UMASK = 0o077


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

    @property
    def shop_plan(self) -> Path:
        """File that keeps the demo's shop going."""
        return self.root / "shop" / "plan.json"

    @property
    def shop_beat(self) -> Path:
        return self.root / "shop" / "beat"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def create(self) -> None:
        """Create the directories; close those that an earlier version left readable to others.

        The right to walk through the root stays: PostgreSQL's account has it where the stack runs as root.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(stat.S_IMODE(self.root.stat().st_mode) & ~OTHERS_READ_OR_WRITE)
        for name in OWNED:
            (self.root / name).mkdir(exist_ok=True)
            (self.root / name).chmod(0o700)
