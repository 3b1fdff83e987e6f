"""`up --detach` waits as long as the supervisor has news, and no longer."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import lifecycle
from resources.settings import Settings


class Clock:
    """Time that passes in pauses only; a supervisor writes a line after every second of it, eight times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log = Path()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        second = int(self.now)
        self.now += seconds
        if second < int(self.now) <= 8:
            with self.log.open("a") as output:
                output.write(f"{int(self.now)}\n")


def test_news_prolong_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def spawn(_command: list[str], _env: object, _cwd: Path, log: Path) -> SimpleNamespace:
        clock.log = log
        return SimpleNamespace(pid=os.getpid(), poll=lambda: None)

    monkeypatch.setattr(lifecycle, "spawn", spawn)
    monkeypatch.setattr(lifecycle, "time", clock)
    monkeypatch.setattr(lifecycle, "PATIENCE_S", 2.0)
    heard: list[str] = []
    with pytest.raises(StackError, match="nothing happened for 2 s"):
        lifecycle.detach(Settings(data_dir=tmp_path), [], heard.append)
    assert heard == [str(second) for second in range(1, 9)]
    assert 10.0 < clock.now < 10.5
