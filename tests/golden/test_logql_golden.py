"""Scripts of LogQL on every stack; what may fail stands in the skip list, with its reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.golden.logqltest import Result, run_file, stack_named
from tests.golden.logqltest_script import Eval, commands
from tests.golden.logqltest_stacks import STACKS, LakeStack

HERE = Path(__file__).parent
CORPORA = HERE.parents[2] / "shared" / "corpora" / "logqltest"
OWN = sorted((HERE / "cases" / "logql").glob("*.logqltest"))
THEIRS = sorted(CORPORA.glob("*.logqltest"))
pytestmark = pytest.mark.integration
needs_corpora = pytest.mark.skipif(not CORPORA.is_dir(), reason=f"no test suites of others in {CORPORA}")


@cache
def skips() -> dict[tuple[str, str], frozenset[str]]:
    """(file, line or *) and the stacks that may fail there."""
    found = {}
    for row in (HERE / "logqltest_skips.txt").read_text().splitlines():
        if row.strip() and not row.startswith("#"):
            place, stacks, reason = row.split(maxsplit=2)
            assert reason.strip(), f"{place}: a skip needs a reason"
            file, _, line = place.partition(":")
            found[file, line] = frozenset(STACKS) if stacks == "all" else frozenset(stacks.split(","))
    return found


def may_fail(result: Result, stack: str) -> bool:
    places = ((result.file, str(result.line)), (result.file, "*"))
    return any(stack in skips().get(place, frozenset()) for place in places)


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("path", [*OWN, *THEIRS], ids=lambda path: path.stem)
def test_every_eval_gives_what_the_script_says(path: Path, name: str) -> None:
    results = list(run_file(path, stack_named(name)))
    wrong = [f"line {r.line}: {r.query}: {r.problem}" for r in results if r.problem and not may_fail(r, name)]
    assert results
    assert wrong == []


@needs_corpora
def test_all_scripts_of_others_are_read() -> None:
    evals = [one for path in THEIRS for one in commands(path.read_text()) if isinstance(one, Eval)]
    assert len(evals) == 781


def test_the_split_stack_cuts_range_queries() -> None:
    stack = stack_named("split")
    assert isinstance(stack, LakeStack)
    ranges = sum(isinstance(one, Eval) and one.count > 1 for one in commands(OWN[0].read_text()))
    results = list(run_file(OWN[0], stack))
    assert stack.lake.dispatcher.units > len(results) + ranges


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    script = tmp_path / "wrong.logqltest"
    script.write_text(
        'load\n  {app="a"} "x" @ 10s [repeat every 10s for 3]\n'
        'eval instant at 30s count_over_time({app="a"}[30s])\n  {app="a"} 4\n'
        'eval instant at 30s count_over_time({app="a"}[30s])\n  {app="b"} 3\n'
        'eval instant at 30s count_over_time({app="a"}[30s])\n  expect empty\n'
        'eval instant at 30s count_over_time({app="a"}[30s])\n  expect fail\n'
        'eval instant at 30s count_over_time({app="a"}[30s])\n  {app="a"} 3\n'
    )
    results = list(run_file(script, stack_named("memory")))
    assert [result.problem is None for result in results] == [False, False, False, False, True]
