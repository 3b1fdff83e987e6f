"""Recorded answers of a real Tempo to requests over recorded traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar.testing import TestClient

from tests.golden.traceql import QUERIES, Verdict, replay, served
from tests.support.corpora import CORPORA

RECORDED = CORPORA / "traceql" / "golden"
SKIPS = Path(__file__).parent / "traceql_skips.txt"
pytestmark = [
    pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded answers of others in {RECORDED}"),
    pytest.mark.integration,
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Verdict]]:
    with served(RECORDED, tmp_path_factory.mktemp("traceql")) as client:
        yield list(replay(_typed(client), RECORDED))


def _typed(client: TestClient) -> TestClient:  # type: ignore[type-arg]
    return client


def skips() -> dict[str, str]:
    """Requests whose answers differ, with the reason."""
    lines = [line.split("  ", 2) for line in SKIPS.read_text().splitlines() if not line.startswith("#")]
    return {name: why for name, _, why in lines}


def test_answers_are_the_recorded_ones(verdicts: list[Verdict]) -> None:
    wrong = {
        one.line["id"]: (one.line["request"], one.fault) for one in verdicts if one.fault and not one.quirk
    }
    assert {name: why for name, why in wrong.items() if name not in skips()} == {}


def test_the_list_of_skips_only_shrinks(verdicts: list[Verdict]) -> None:
    right = {one.line["id"] for one in verdicts if not one.fault}
    assert [name for name in skips() if name in right] == []
    assert all(skips().values()), "every entry has a reason"


def test_every_request_was_asked(verdicts: list[Verdict]) -> None:
    assert len(verdicts) > 800, QUERIES
