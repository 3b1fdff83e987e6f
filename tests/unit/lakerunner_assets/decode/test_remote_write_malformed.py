"""Broken remote write objects are rejected with a position, and never read past."""

from __future__ import annotations

import pytest

from tests.unit.conftest import Run


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    assert "truncations" in run_checked("tests.support.decode.hostile_remote_write", "1500")
