"""Lets property tests look for new counterexamples: `make explore` (`ROUNDS=5`, `SEED=7`, or pytest's
arguments).

`make test` draws the same examples every time, so that it fails for what changed and never for bad luck.
Here each round has another seed, which is printed. What is found stays in `.hypothesis/` and is tried first
by the next run; the mended test gets it as an `@example`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    rounds, first = int(os.environ.get("ROUNDS", "1")), os.environ.get("SEED")
    seeds = [int(first)] if first else [random.SystemRandom().randrange(2**32) for _ in range(rounds)]
    failed = [seed for seed in seeds if explore(seed)]
    if failed:
        print("counterexamples with seeds " + ", ".join(map(str, failed)) + ": make explore SEED=…")
    return int(bool(failed))


def explore(seed: int) -> int:
    """Run the property tests once; pytest's exit code."""
    print(f"seed {seed}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "-p", "no:cacheprovider"]
    profile = ["--hypothesis-profile=explore", f"--hypothesis-seed={seed}", *(sys.argv[1:] or ["tests/unit"])]
    return subprocess.run([*command, *profile], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
