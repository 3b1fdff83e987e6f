"""A running part of the local stack for tests, through the same commands that people use.

`start_stack` returns the settings of a stack on ports of its own; `stop_stack` ends it. A test session starts
one and shares it: PostgreSQL, Kafka and Spark together take about seven seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.ports import any_free
from lakerunner_cli.stack.state import StackState, read_state
from resources.settings import Settings, process_environment
from tests.support.patience import PATIENCE_S

PORT_SETTINGS = ("POSTGRES", "KAFKA", "SPARK", "WEBSERVER", "INGRESS", "QUERY", "WORKER")


def start_stack(
    data_dir: Path,
    components: Sequence[str],
    extra: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
) -> Settings:
    """Start `components` and what they need; the settings with which any process finds them."""
    options = ("up", "--detach", f"--only={','.join(components)}", *arguments)
    done = lakerunner(data_dir, *options, extra={**unused_ports(), **(extra or {})}, patience_s=patience_s)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return stack_settings(data_dir)


def stop_stack(data_dir: Path) -> None:
    done = lakerunner(data_dir, "down")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def stack_settings(data_dir: Path) -> Settings:
    return Settings.load({"LAKERUNNER_DATA_DIR": str(data_dir)})


def dagster_key(settings: Settings) -> dict[str, str]:
    """The header with which Dagster's webserver answers."""
    return {"Authorization": f"Bearer {settings.webserver_token}"}


def forget_spark_session() -> None:
    """Close this process' Spark session: the next server would be asked through it."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession._default_session
    if session is not None:
        session.stop()


def stack_state(data_dir: Path) -> StackState:
    state = read_state(StackPaths(data_dir).state)
    assert state is not None
    return state


def stack_status(data_dir: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(lakerunner(data_dir, "status", "--json").stdout)
    return answer


def lakerunner(
    data_dir: Path, *arguments: str, extra: Mapping[str, str] | None = None, patience_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, with nothing of this shell's LAKERUNNER_* settings."""
    kept = {k: v for k, v in process_environment().items() if not k.startswith("LAKERUNNER_")}
    return subprocess.run(
        [sys.executable, "-m", "lakerunner_cli.main", *arguments, "--data-dir", str(data_dir)],
        env={**kept, **(extra or {})},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )


def unused_ports() -> dict[str, str]:
    """Ports nobody listens on, so that tests do not meet a stack that a person is running."""
    found: set[int] = set()
    while len(found) < len(PORT_SETTINGS):
        found.add(any_free())
    return {f"LAKERUNNER_{name}_PORT": str(p) for name, p in zip(PORT_SETTINGS, found, strict=True)}
