"""An object that ends its reader costs one try of its own; its neighbours get through in the same attempt."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from lakerunner_assets.cooked import apart
from lakerunner_assets.cooked.apart import ChildDiedError, cook_apart, ending
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import PATIENCE_S, wait_for

DEADLY = """
import os, signal
from lakerunner_assets.cooked import task
read = task.Round._rows_of
def deadly(self, obj, fetched, folder):
    if "segv" in obj.key:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "kill" in obj.key:
        os.kill(os.getpid(), signal.SIGKILL)
    if "exit" in obj.key:
        os._exit(7)
    if "large" in obj.key:
        bytearray(6 << 30)
    if "raises" in obj.key:
        raise OSError("nobody knows")
    return read(self, obj, fetched, folder)
task.Round._rows_of = deadly
from lakerunner_assets.cooked.child import main
main()
"""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake that cooks in a child, which some names of objects end."""
    made = lake_in(tmp_path)
    made.tasks.is_apart = True
    monkeypatch.setattr(apart, "_MAIN", DEADLY)
    monkeypatch.setattr(apart, "_CHILD", apart.Child())
    monkeypatch.setenv("LAKERUNNER_LAKE_URL", made.settings.lake_url)
    yield made
    apart._CHILD.stop()


def lines(*messages: str) -> bytes:
    return otlp_logs([(HOUR + SECOND + at, message) for at, message in enumerate(messages)])


def test_a_crash_of_the_reader_costs_one_object_one_try(lake: Lake) -> None:
    for name in ("a", "segv", "b", "large", "c"):
        lake.arrive(name, lines(name))
    lake.index.create_organisation("other")
    lake.arrive("neighbour", lines("neighbour"), org="other")
    lake.cook()
    assert lake.messages() == Counter(["a", "b", "c"])
    assert lake.messages(org="other") == Counter(["neighbour"])
    assert lake.tasks.jobs == [2]  # one unit for each organisation, in one job and one attempt
    assert lake.waiting() == (2, 0)
    large, segv = sorted(lake.report.failed)
    assert "large: takes more memory to read than a task may have" in large
    assert segv.endswith("segv: the file crashed its reader (SIGSEGV)")


def test_a_child_killed_from_outside_blames_nobody(lake: Lake) -> None:
    lake.arrive("kill", lines("x"))
    (claim,) = claims(lake)
    with pytest.raises(ChildDiedError, match="SIGKILL"):
        cook_apart(claim)
    assert ending(-9) == "SIGKILL"


def test_an_error_of_the_whole_unit_is_raised_with_its_place(lake: Lake) -> None:
    lake.arrive("raises", lines("x"))
    (claim,) = claims(lake)
    with pytest.raises(RuntimeError, match="nobody knows"):
        cook_apart(claim)
    first = apart._CHILD._running
    assert first is None or first.process.poll() is None


def claims(lake: Lake) -> list[bytes]:
    """Encoded units of what is pending."""
    found: list[bytes] = []

    def keep(_: Callable[[bytes], bytes], payloads: list[bytes], __: object) -> list[bytes]:
        found.extend(payloads)
        raise KeyboardInterrupt

    lake.tasks.run = keep  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        lake.cook()
    return found


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from lakerunner_assets.cooked import apart\n"
        "print(apart._start().process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    pid = int(ran.stdout)
    wait_for(lambda: not psutil.pid_exists(pid), "the end of the child")
