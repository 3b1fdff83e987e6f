"""The built wheel, in an environment without a checkout, has every file and command of the project."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from resources.settings import process_environment
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "lakerunner_assets", "lakerunner_query", "lakerunner_ingress", "lakerunner_cli",
    "resources", "sensors", "migrations",
)  # fmt: skip
pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy of what git knows, so that nothing is left in the checkout."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in _tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    build = f"import setuptools.build_meta as b; b.build_wheel({str(target)!r})"
    made = subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-2000:]
    (found,) = target.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with the dependencies of this one."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    packages = next((home / "lib").glob("python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(packages)
    # a plain path: the editable install of this checkout, a hook of that directory, does not come along
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "python"


def test_the_wheel_holds_every_file_of_every_package(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == {name for name in _tracked() if name.split("/")[0] in PACKAGES}


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"]])
def test_commands_work_in_an_empty_directory(arguments: list[str], python: Path, tmp_path: Path) -> None:
    done = _run(python, tmp_path, "-m", "lakerunner_cli.main", *arguments)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_finds_the_packages_as_pinned(python: Path, tmp_path: Path) -> None:
    done = _run(python, tmp_path, "-m", "lakerunner_cli.main", "doctor", "--json")
    findings = {each["check"]: each for each in json.loads(done.stdout)}
    assert findings["packages"]["found"] == "as pinned"
    assert findings["java"]["verdict"] == "ok"
    assert findings["data directory"]["found"] == str(tmp_path / ".lakerunner")


def test_definitions_migrations_and_configuration_are_those_of_the_wheel(
    python: Path, tmp_path: Path
) -> None:
    done = _run(python, tmp_path, "-W", "ignore", "-c", PROGRAM)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert str(python.parents[1]) in found["definitions"]
    assert "cook_logs" in found["jobs"]
    assert "0001_foundation.sql" in found["migrations"]
    assert "run_monitoring" in found["dagster.yaml"]
    assert found["jars"] > 0


PROGRAM = """
import json
from importlib.resources import files
import lakerunner_assets.definitions as definitions
from lakerunner_cli.stack.jars import kafka_jars
print(json.dumps({
    "definitions": definitions.__file__,
    "jobs": [job.name for job in definitions.defs.resolve_all_job_defs()],
    "migrations": [entry.name for entry in files("migrations").iterdir()],
    "dagster.yaml": files("lakerunner_cli").joinpath("stack/dagster.yaml").read_text(),
    "jars": len(kafka_jars()),
}))
"""


def _tracked() -> list[str]:
    """Files that the build needs: those of the packages, and what `pyproject.toml` names."""
    kept = [*PACKAGES, "pyproject.toml", "README.md", "LICENSE"]
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *kept],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def _run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in process_environment().items()
        if not name.startswith(("LAKERUNNER_", "PYTHON", "SPARK_"))
    }
    return subprocess.run(
        [str(python), *arguments], cwd=folder, env={**kept, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
