"""Loki's own texts: what parses, what does not, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.logql_parse import cases, problem
from tests.support.corpora import CORPORA

FILES = [CORPORA / "parse" / "logql_parse.json", *sorted((CORPORA / "logqltest").glob("*.logqltest"))]
needs_corpora = pytest.mark.skipif(not CORPORA.is_dir(), reason=f"no test suites of others in {CORPORA}")


@needs_corpora
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_texts_parse_or_are_refused_with_their_message(path: Path) -> None:
    found = {case.text: problem(case) for case in cases(path)}
    assert found
    assert {text: why for text, why in found.items() if why} == {}
