"""Run promqltest scripts: python -m tests.golden.promqltest PATH… [--json OUT] [--stack STACK] [--verbose]

Each `eval` counts once; the last line is `passed N/M`. Every instant query is also asked as a range query
around its time, and with `@ time` at other times: what goes wrong only there is listed as `also`, and not
counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.golden.memory_source import MemorySource
from tests.golden.promqltest_compare import MismatchError, Outcome, check, check_value
from tests.golden.promqltest_script import Clear, Eval, Load, Times, commands
from tests.golden.promqltest_stacks import SourceStack, Stack
from tests.golden.promqltest_variants import RANGE_CALLS, at_variants


@dataclass(frozen=True, slots=True)
class Result:
    file: str
    line: int
    query: str
    problem: str | None
    also: tuple[str, ...] = ()
    """What only the variants of the query get wrong."""


def run_file(path: Path, stack: Stack, variants: bool) -> Iterator[Result]:
    for command in commands(path.read_text()):
        match command:
            case Clear():
                stack.clear()
            case Load():
                stack.load(command)
            case Eval():
                yield _run(path.name, command, stack, variants)
    stack.clear()


def _run(name: str, command: Eval, stack: Stack, variants: bool) -> Result:
    problem = _problem(command, stack, command.text, command.times, command.is_range)
    also = tuple(_also(command, stack)) if variants and problem is None else ()
    return Result(name, command.line, command.text, problem, also)


def _problem(command: Eval, stack: Stack, text: str, times: Times, is_range: bool) -> str | None:
    outcome = _asked(stack, text, times, is_range)
    if isinstance(outcome, str):
        return outcome
    points = command.range_vector or times
    return _mismatch(command, outcome, points)


def _asked(stack: Stack, text: str, times: Times, is_range: bool) -> Outcome | str:
    """The outcome, or what broke: only errors that are meant for callers are outcomes."""
    try:
        return stack.ask(text, times, is_range)
    except Exception as error:  # noqa: BLE001  (one broken query must not hide the others)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"BROKEN {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


def _mismatch(command: Eval, outcome: Outcome, points: Times, with_annotations: bool = True) -> str | None:
    try:
        (check if with_annotations else check_value)(command, outcome, points)
    except MismatchError as mismatch:
        return str(mismatch)
    return None


def _also(command: Eval, stack: Stack) -> Iterator[str]:
    """Problems of the same question asked otherwise."""
    if command.is_range:
        return
    at_ms = command.times.start_ms
    asked = [(command.text, at_ms)]
    for text, other_ms in at_variants(command.text, at_ms):
        asked.append((text, other_ms))
        problem = _problem(command, stack, text, Times(other_ms, other_ms, 0), is_range=False)
        if problem:
            yield f"{text} at {other_ms} ms: {problem}"
    if command.range_vector or command.string is not None or "fail" in command.words:
        return
    for text, middle_ms in asked:
        if RANGE_CALLS.search(text):
            continue
        problem = _in_range(command, stack, text, middle_ms)
        if problem:
            yield f"{text} in a range around {middle_ms} ms: {problem}"


def _in_range(command: Eval, stack: Stack, text: str, middle_ms: int) -> str | None:
    times = Times(middle_ms - 60_000, middle_ms + 60_000, 60_000)
    outcome = _asked(stack, text, times, is_range=True)
    if isinstance(outcome, str):
        return outcome
    if outcome.failure is not None:
        return f"error: {outcome.failure}"
    if "ordered" in command.words:
        return None
    return _mismatch(
        command, outcome.at(middle_ms, command.number is not None), command.times, with_annotations=False
    )


def stack_named(name: str) -> Stack:
    if name == "memory":
        return SourceStack(MemorySource())
    # What a lake needs takes seconds to import.
    from tests.golden.lake_stacks import lake_stack

    return lake_stack(name)


def main() -> int:
    options = _options()
    stack = stack_named(options.stack)
    results: list[Result] = []
    for path in _scripts(options.paths):
        found = list(run_file(path, stack, not options.no_variants))
        results += found
        passed = sum(one.problem is None for one in found)
        print(f"{path.name}: {passed}/{len(found)}", flush=True)
        for one in found if options.verbose else ():
            if one.problem:
                print(f"  line {one.line}: {one.query}\n    {one.problem}")
            for also in one.also[:1]:
                print(f"  also, line {one.line}: {one.query}\n    {also}")
    if options.json:
        Path(options.json).write_text(json.dumps([_row(one) for one in results], indent=1))
    total, partly = sum(one.problem is None for one in results), sum(bool(one.also) for one in results)
    if partly:
        print(f"{partly} passed, but not in all variants")
    print(f"passed {total}/{len(results)}")
    return 0 if total == len(results) else 1


def _row(one: Result) -> dict[str, object]:
    return {"file": one.file, "line": one.line, "query": one.query, "problem": one.problem, "also": one.also}


def _scripts(paths: list[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(path.glob("*.test")) if path.is_dir() else [path]
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.promqltest", description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--json", help="write every result there")
    parser.add_argument("--stack", default="single", choices=["memory", "single", "split", "rollup"])
    parser.add_argument("--no-variants", action="store_true", help="ask each query once")
    parser.add_argument("--verbose", "-v", action="store_true", help="say what went wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
