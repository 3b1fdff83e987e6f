"""Pipeline stages on the vectors of others: one line in, labels and line out."""

from __future__ import annotations

import json

import pytest

from tests.golden.logql_stages import DEFAULT, SECTIONS, main, problem

pytestmark = pytest.mark.skipif(not DEFAULT.is_file(), reason=f"no test suites of others at {DEFAULT}")


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_case_becomes_what_it_should(name: str) -> None:
    cases = json.loads(DEFAULT.read_text())[name]
    wrong = [(case, found) for case in cases if (found := problem(SECTIONS[name], case))]
    assert cases
    assert wrong == []


def test_the_command_says_how_many_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    total = sum(len(cases) for cases in json.loads(DEFAULT.read_text()).values())
    assert capsys.readouterr().out.splitlines()[-1] == f"passed {total}/{total}"
