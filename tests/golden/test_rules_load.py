"""Rule files of other projects load, or are refused, as the tools they were written for do."""

from __future__ import annotations

import pytest

from tests.golden.rules_load import DEFAULT, cases, problem

pytestmark = pytest.mark.skipif(not DEFAULT.is_dir(), reason=f"no rule files of others in {DEFAULT}")


@pytest.mark.parametrize("sort", ["text", "load", "loki", "tests", "alert_generator"])
def test_files_have_the_verdict_of_their_own_tool(sort: str) -> None:
    found = {case.name: problem(case) for case in cases(DEFAULT) if case.name.split("/")[0] == sort}
    assert found
    assert {name: why for name, why in found.items() if why} == {}
