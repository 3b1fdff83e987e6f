"""Patterns of lines: never finer than fingerprints, found again by `|>`, and quick whatever the line."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakerunner_assets.decode.fingerprint import fingerprints
from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.ast import FilterOp, LineFilter
from lakerunner_query.logql.pipeline import Demand, apply
from lakerunner_query.worker.logs.patterns import pattern_of


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("", ""),
        ("no digits at all", "no digits at all"),
        ("2026-01-02T03:04:05.123Z INFO id=7f3a-1 done.", "<_> INFO id=<_> done."),
        ('{"id": "a", "n": 5, "empty": ""}', '{"id": "<_>", "n": <_>, "empty": ""}'),
        ("user's \"x y\" and 'quoted'", "user's \"<_>\" and '<_>'"),
        ("ünï 5✓5", "ünï <_>✓<_>"),
        ("abcdabcd-abcd-abcd-abcd-abcdabcdabcd", "<_>"),
        ("a" * 5000, "a" * 4096 + "<_>"),
    ],
)
def test_what_is_masked(line: str, pattern: str) -> None:
    assert pattern_of(line) == pattern


def test_lines_of_one_fingerprint_have_one_pattern_that_finds_them(corpora: Path) -> None:
    lines = [
        line
        for path in sorted((corpora / "loghub").glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()
        if line
    ]
    assert len(lines) > 30_000
    patterns: dict[int, set[str]] = {}
    for number, line in zip(fingerprints(pa.array(lines)).tolist(), lines, strict=True):
        patterns.setdefault(number, set()).add(pattern_of(line))
    assert all(len(texts) == 1 for texts in patterns.values())
    for path in sorted((corpora / "loghub").glob("*.log")):
        line = path.read_text(errors="replace").splitlines()[-1]
        frame = LogFrame(pa.array([0]).to_numpy(), pa.array([line]))
        found = LineFilter(FilterOp.PATTERN, (pattern_of(line),))
        assert apply(frame, (found,), Demand(None), 0).count == 1, line


@pytest.mark.parametrize(
    "line", ['"' * 4000, '\\"' * 2000, "a" * 4000, "'" * 4000, "1." * 2000, '"\\' * 2000]
)
def test_hostile_lines_take_no_time(line: str) -> None:
    began = time.process_time()
    pattern_of(line)
    assert time.process_time() - began < 5
