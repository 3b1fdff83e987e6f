"""Tempo's own texts and recorded requests: what parses, what does not, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.traceql_texts import EXAMPLES, OWN, REQUESTS, cases, problem
from tests.support.corpora import CORPORA

needs_corpora = pytest.mark.skipif(not CORPORA.is_dir(), reason=f"no test suites of others in {CORPORA}")


@pytest.mark.parametrize(
    "path",
    [OWN, pytest.param(EXAMPLES, marks=needs_corpora), pytest.param(REQUESTS, marks=needs_corpora)],
    ids=lambda path: path.name,
)
def test_texts_parse_or_are_refused_for_the_right_reason(path: Path) -> None:
    found = {case.text: problem(case) for case in cases(path)}
    assert found
    assert {text: why for text, why in found.items() if why} == {}
