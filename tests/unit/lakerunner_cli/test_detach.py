"""`up --detach` waits as long as the supervisor has news, and no longer."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import lifecycle
from resources.settings import Settings

NEWS = "import time\nfor n in range(8): print(n, flush=True); time.sleep(0.25)\ntime.sleep(30)"


def test_news_prolong_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def spawn(_command: list[str], _env: object, _cwd: Path, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            started.append(subprocess.Popen([sys.executable, "-c", NEWS], stdout=output))
        return started[0]

    monkeypatch.setattr(lifecycle, "spawn", spawn)
    monkeypatch.setattr(lifecycle, "PATIENCE_S", 1.0)
    heard: list[str] = []
    began = time.monotonic()
    with pytest.raises(StackError, match="nothing happened for 1 s"):
        lifecycle.detach(Settings(data_dir=tmp_path), [], heard.append)
    for process in started:
        process.kill()
        process.wait()
    assert heard == [str(n) for n in range(8)]
    assert time.monotonic() - began > 2.5
