"""Texts in lines, eight places at a time: what Python's `in` says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.logql.kernels.strings import containing_rows, text_of

LINES = st.lists(st.text("abé", max_size=30), min_size=1, max_size=20)


@settings(deadline=None)
@given(LINES, st.text("abé", min_size=1, max_size=12))
def test_lines_that_hold_a_text(lines: list[str], needle: str) -> None:
    text = text_of(pa.array(lines, pa.string()))
    found = containing_rows(text.data, text.offsets, np.frombuffer(needle.encode(), np.uint8))
    assert found.tolist() == [needle in line for line in lines]


def test_a_text_that_goes_on_in_the_next_line_is_in_neither() -> None:
    text = text_of(pa.array(["xxxxxxxxab", "cdxxxxxxxx", "abcd"], pa.string()))
    found = containing_rows(text.data, text.offsets, np.frombuffer(b"abcd", np.uint8))
    assert found.tolist() == [False, False, True]
