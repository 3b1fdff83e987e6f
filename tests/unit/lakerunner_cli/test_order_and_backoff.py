"""Start order, stop order and the pauses between restarts."""

from __future__ import annotations

import doctest

import pytest

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import java, runner, view
from lakerunner_cli.stack.component import stop_order
from lakerunner_cli.stack.components import COMPONENTS, select


@pytest.mark.parametrize("module", [runner, java, view])
def test_examples_in_docstrings(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0
    assert results.failed == 0


def test_needs_name_components_that_come_earlier() -> None:
    seen: set[str] = set()
    for component in COMPONENTS:
        assert set(component.needs) <= seen
        seen.add(component.name)


def test_whoever_needs_something_stops_before_it() -> None:
    groups = stop_order(COMPONENTS)
    position = {component.name: i for i, group in enumerate(groups) for component in group}
    assert len(position) == len(COMPONENTS)
    assert all(position[c.name] < position[need] for c in COMPONENTS for need in c.needs)


def test_select_adds_what_is_needed() -> None:
    assert [component.name for component in select(("daemon",))] == ["postgres", "code_server", "daemon"]
    assert select(()) == COMPONENTS
    with pytest.raises(StackError, match="no component 'web'"):
        select(("web",))


def test_a_calm_minute_forgives_earlier_crashes() -> None:
    assert runner.next_crash_count(5, lived_s=1) == 6
    assert runner.next_crash_count(5, lived_s=61) == 1
