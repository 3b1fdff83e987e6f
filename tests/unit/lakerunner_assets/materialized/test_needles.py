"""All texts that line filters look for are found as Python finds them, in whatever lines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_assets.materialized.needles import Needles, is_plain
from lakerunner_query.logql.lang.ast import LineFilter, LogQuery
from lakerunner_query.logql.lang.parser import parse_expr

LETTERS = st.text(alphabet="ab=1é?", max_size=8)
NEEDLES = st.text(alphabet="ab=1é?", min_size=2, max_size=5)


def filters(pipeline: str) -> list[LineFilter]:
    query = parse_expr(f'{{app="x"}} {pipeline}')
    assert isinstance(query, LogQuery)
    return [stage for stage in query.stages if isinstance(stage, LineFilter)]


def quoted(text: str) -> str:
    return f"`{text}`"


@given(
    lines=st.lists(LETTERS, max_size=12),
    texts=st.lists(st.lists(NEEDLES, min_size=1, max_size=3), min_size=1, max_size=6),
    skipped=st.integers(0, 3),
)
def test_lines_pass_as_if_each_filter_were_alone(
    lines: list[str], texts: list[list[str]], skipped: int
) -> None:
    chosen = filters(
        " ".join(
            f"{'!=' if number % 2 else '|='} {' or '.join(map(quoted, each))}"
            for number, each in enumerate(texts)
        )
    )
    array = pa.array(["cut", *lines, "behind"], pa.string())[1 : 1 + max(0, len(lines) - skipped)]
    found = Needles.of(chosen).test(array)
    for one in chosen:
        wanted = [
            any(value in line for value in one.values) != one.op.is_negative for line in array.to_pylist()
        ]
        assert found[one].tolist() == wanted
        assert found[one].dtype == np.bool_


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ('|= "ab"', True),
        ('!= "ab"', True),
        ('|= "ab" or "cd"', True),
        ('|= "a"', False),
        ('|= ""', False),
        ('|~ "a.b"', False),
        ('|> "<_>ab"', False),
        ('|= ip("10.0.0.1")', False),
    ],
)
def test_other_filters_are_left_to_the_pipeline(pipeline: str, expected: bool) -> None:
    (one,) = filters(pipeline)
    assert is_plain(one) is expected
