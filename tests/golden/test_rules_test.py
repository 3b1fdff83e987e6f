"""Rule unit tests of others come to the verdicts of promtool, group by group."""

from __future__ import annotations

import pytest

from tests.golden.rules_test import Verdict, run, verdicts
from tests.support.corpora import CORPORA

CORPUS = CORPORA / "rules"
SLOW = ("ceph/", "database_backups", "flux.rules", "node-exporter.rules")
"""Parts of names of files that take longer; `python -m tests.golden.rules_test` runs all."""
CHOSEN = (
    [one for one in verdicts(CORPUS) if not any(part in one.file for part in SLOW)] if CORPUS.is_dir() else []
)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no rule unit tests of others in {CORPUS}"),
]


def test_there_are_files_that_pass_and_that_fail() -> None:
    assert len(CHOSEN) > 130
    assert sum(bool(one.failed) for one in CHOSEN) > 10


@pytest.mark.parametrize("verdict", CHOSEN, ids=lambda verdict: verdict.file)
def test_the_same_groups_fail(verdict: Verdict) -> None:
    (result,) = run(CORPUS, [verdict])
    assert (set(result.failures), result.groups) == (verdict.failed, verdict.groups), result.failures
