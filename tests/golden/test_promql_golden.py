"""Scripts and recordings of PromQL on every stack; what may fail stands in the skip list, with its reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.golden.lake_stacks import RollupStack
from tests.golden.promql_compliance import run as run_compliance
from tests.golden.promql_parse import cases as parse_cases
from tests.golden.promql_parse import problem as parse_problem
from tests.golden.promqltest import Result, run_file, stack_named
from tests.golden.promqltest_stacks import SourceStack

HERE = Path(__file__).parent
CORPORA = HERE.parents[2] / "shared" / "corpora"
OWN = sorted((HERE / "cases" / "promql").glob("*.test"))
THEIRS = sorted((CORPORA / "promqltest").glob("*.test"))
STACKS = ("memory", "single", "split", "rollup")
pytestmark = pytest.mark.integration
needs_corpora = pytest.mark.skipif(not CORPORA.is_dir(), reason=f"no test suites of others in {CORPORA}")


@cache
def skips() -> dict[tuple[str, str], frozenset[str]]:
    """(file, line or *) and the stacks that may fail there."""
    rows = (HERE / "promqltest_skips.txt").read_text().splitlines()
    found = {}
    for row in rows:
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
    results = list(run_file(path, stack_named(name), variants=name == "memory"))
    wrong = [f"line {r.line}: {r.query}: {r.problem}" for r in results if r.problem and not may_fail(r, name)]
    wrong += [f"line {r.line}: {also}" for r in results for also in r.also]
    assert results
    assert wrong == []


def test_the_rollup_stack_reads_rollups() -> None:
    stack = stack_named("rollup")
    assert isinstance(stack, RollupStack)
    list(run_file(OWN[-1], stack, variants=False))
    assert sum(stack.served.values()) > 0


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    script = tmp_path / "wrong.test"
    script.write_text(
        "load 1m\n  up 1 2 3\n\neval instant at 2m up\n  up 4\n\neval instant at 2m up\n  up 3\n"
    )
    results = list(run_file(script, stack_named("single"), variants=False))
    assert [result.problem is None for result in results] == [False, True]


@needs_corpora
def test_texts_that_must_parse_do_and_others_do_not() -> None:
    cases = list(parse_cases(CORPORA / "parse" / "promql_parse.json"))
    assert len(cases) > 200
    assert [(text, found) for text, valid in cases if (found := parse_problem(text, valid))] == []


@needs_corpora
def test_recorded_answers_of_a_real_server() -> None:
    folder = CORPORA / "promql_compliance"
    passed, total = run_compliance(folder / "golden.json.gz", folder / "generate.py")
    assert passed == total == 539


def test_stacks_are_what_their_names_say() -> None:
    assert all(isinstance(stack_named(name), SourceStack) for name in STACKS)
