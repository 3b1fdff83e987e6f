"""Run logqltest scripts: python -m tests.golden.logqltest PATH… [--json OUT] [--stack STACK] [--verbose]

Each `eval` counts once; the last line is `passed N/M`.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.golden.logqltest_compare import Outcome, mismatch
from tests.golden.logqltest_script import Clear, Eval, Load, commands
from tests.golden.logqltest_stacks import STACKS, Stack


@dataclass(frozen=True, slots=True)
class Result:
    file: str
    line: int
    query: str
    problem: str | None


def run_file(path: Path, stack: Stack) -> Iterator[Result]:
    for command in commands(path.read_text()):
        match command:
            case Clear():
                stack.clear()
            case Load():
                stack.load(command.lines)
            case Eval():
                yield Result(path.name, command.line, command.text, _problem(command, stack))
    stack.clear()


def _problem(command: Eval, stack: Stack) -> str | None:
    """What broke is a problem too, whatever the script expects: only errors for callers are outcomes."""
    try:
        found: Outcome = stack.ask(command)
    except Exception as error:  # noqa: BLE001  (one broken query must not hide the others)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"BROKEN {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    return mismatch(command, found)


def stack_named(name: str) -> Stack:
    return STACKS[name]()


def main() -> int:
    options = _options()
    stack = stack_named(options.stack)
    results: list[Result] = []
    for path in _scripts(options.paths):
        found = list(run_file(path, stack))
        results += found
        print(f"{path.name}: {sum(one.problem is None for one in found)}/{len(found)}", flush=True)
        for one in found if options.verbose else ():
            if one.problem:
                print(f"  line {one.line}: {one.query}\n    {one.problem}")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(one) for one in results], indent=1))
    total = sum(one.problem is None for one in results)
    print(f"passed {total}/{len(results)}")
    return 0 if total == len(results) else 1


def _scripts(paths: list[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(path.rglob("*.logqltest")) if path.is_dir() else [path]
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.logqltest", description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--json", help="write every result there")
    parser.add_argument("--stack", default="single", choices=sorted(STACKS))
    parser.add_argument("--verbose", "-v", action="store_true", help="say what went wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
