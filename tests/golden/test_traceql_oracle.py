"""Random TraceQL over random traces, stored in several ways, against a plain evaluation of whole traces.

The short form of `benchmarks/random_traceql`, which repeats a difference by its seed and number.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cooking_lake import Lake
from tests.support.query.traceql.asking import Asker, World, build_world, question_of, served_here

QUESTIONS = 20
CUTS = 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Asker]]:
    with served_here(tmp_path_factory.mktemp("traceql")) as found:
        yield found


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_whole_traces_however_they_were_stored(
    seed: int, served: tuple[Lake, Asker]
) -> None:
    lake, asker = served
    world: World = build_world(lake, f"t:{seed}", 12, CUTS)
    for number in range(QUESTIONS):
        question = question_of(world, number)
        for cut, how in enumerate(world.cuts):
            problem = asker.difference(world, cut, question)
            assert not problem, f"{seed}:{number}, {how}: {problem}\n{question}"
