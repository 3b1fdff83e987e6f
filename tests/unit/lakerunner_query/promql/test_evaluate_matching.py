"""Binary operators between vectors: who meets whom, and when that is an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import EvaluationError
from tests.support.query.promql.evaluating import Written, ask, table

SIDES = Written(
    {
        "a{x=1}": {0: 1.0, 60: 2.0, 120: 3.0},
        "a{x=2}": {0: 10.0, 60: 20.0, 120: 30.0},
        "b{x=1}": {0: 5.0, 120: 6.0},
        "b{x=3}": {0: 7.0, 60: 8.0, 120: 9.0},
    }
)
CHANGING = Written(
    {
        "many{x=1,y=1}": {0: 1.0, 600: 1.0},
        "many{x=1,y=2}": {0: 2.0, 600: 2.0},
        "one{v=old,x=1}": {0: 10.0},
        "one{v=new,x=1}": {600: 20.0},
        "two{v=old,x=1}": {0: 10.0},
        "two{v=new,x=1}": {0: 20.0},
    }
)


def test_rows_meet_by_all_labels_but_the_name() -> None:
    assert table(ask(SIDES, "a + b", count=3)) == {"{x=1}": [6.0, 7.0, 9.0]}


def test_comparison_filters_and_keeps_the_left_side() -> None:
    assert table(ask(SIDES, "a >= ignoring(x) group_left 2 * b{x='1'} / 5", count=3)) == {
        "a{x=1}": [None, 2.0, 3.0],
        "a{x=2}": [10.0, 20.0, 30.0],
    }
    assert table(ask(SIDES, "a == bool b", count=3)) == {"{x=1}": [0.0, 0.0, 0.0]}


def test_fill_takes_the_place_of_a_missing_side() -> None:
    assert table(ask(SIDES, "a + fill_left(100) fill_right(1000) b")) == {
        "{x=1}": [6.0],
        "{x=2}": [1010.0],
        "{x=3}": [107.0],
    }


def test_one_side_may_change_its_labels_between_steps() -> None:
    """Two series of the "one" side are no ambiguity as long as no step has both."""
    assert table(ask(CHANGING, "many * on(x) group_left(v) one", step=600, count=2)) == {
        "{v=new,x=1,y=1}": [None, 20.0],
        "{v=new,x=1,y=2}": [None, 40.0],
        "{v=old,x=1,y=1}": [10.0, None],
        "{v=old,x=1,y=2}": [20.0, None],
    }


def test_one_row_in_the_end_for_what_has_equal_labels() -> None:
    assert table(ask(CHANGING, "many{y='1'} * on(x) one", step=600, count=2)) == {"{x=1}": [10.0, 20.0]}


def test_two_matches_on_the_one_side_at_a_step_are_named() -> None:
    with pytest.raises(EvaluationError) as caught:
        ask(CHANGING, "many * on(x) group_left two")
    assert caught.value.message == (
        'found duplicate series for the match group {x="1"} on the right hand-side of the operation: '
        '[{__name__="two", v="new", x="1"}, {__name__="two", v="old", x="1"}];'
        "many-to-many matching not allowed: matching labels must be unique on one side"
    )
    with pytest.raises(EvaluationError, match="on the left hand-side"):
        ask(CHANGING, "two * on(x) group_right many")


def test_no_error_where_the_other_side_has_nothing() -> None:
    assert table(ask(CHANGING, "absent_metric * on(x) two")) == {}
    assert table(ask(CHANGING, "many * on(x) two", start=600)) == {}


@pytest.mark.parametrize("op", [">", "<", "+"])
def test_many_to_one_must_be_explicit_even_if_filtered_away(op: str) -> None:
    with pytest.raises(
        EvaluationError, match=r"many-to-one matching must be explicit \(group_left/group_right\)"
    ):
        ask(CHANGING, f"many {op} on(x) one")


def test_grouping_labels_must_tell_rows_apart() -> None:
    source = Written({"m{y=1}": {0: 1.0}, "m{y=2}": {0: 2.0}, "o{y=3}": {0: 3.0}})
    with pytest.raises(EvaluationError, match="grouping labels must ensure unique matches"):
        ask(source, "m * ignoring(y) group_left(y) o")


def test_a_comparison_of_vectors_keeps_a_name_that_was_about_to_go() -> None:
    """Match as Prometheus does where names are dropped at the end of a query."""
    assert table(ask(SIDES, "-a < b", count=1)) == {"a{x=1}": [-1.0]}


def test_set_operators_look_at_each_step() -> None:
    source = Written({"a{x=1}": {0: 1.0, 600: 2.0}, "b{x=1}": {600: 5.0}, "b{x=2}": {0: 6.0}})
    assert table(ask(source, "a and b", step=600, count=2)) == {"a{x=1}": [None, 2.0]}
    assert table(ask(source, "a unless b", step=600, count=2)) == {"a{x=1}": [1.0, None]}
    assert table(ask(source, "a or b", step=600, count=2)) == {"a{x=1}": [1.0, 2.0], "b{x=2}": [6.0, None]}
    assert table(ask(source, "b or a", step=600, count=2)) == {
        "a{x=1}": [1.0, None],
        "b{x=1}": [None, 5.0],
        "b{x=2}": [6.0, None],
    }


_numbers = st.floats(allow_nan=False, width=32)
_rows = st.lists(st.none() | _numbers, min_size=3, max_size=3)


@settings(max_examples=40, deadline=None)
@given(left=_rows, right=_rows, op=st.sampled_from(["+", "-", "*", "/", "%", "^", "atan2"]))
def test_arithmetic_is_that_of_each_step(
    left: list[float | None], right: list[float | None], op: str
) -> None:
    """Steps are ten minutes apart: no look-back reaches from one step to the next."""
    at = [0, 600, 1200]
    source = Written(
        {
            "a{x=1}": {t: value for t, value in zip(at, left, strict=True) if value is not None},
            "b{x=1}": {t: value for t, value in zip(at, right, strict=True) if value is not None},
        }
    )
    functions = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
    function = functions.get(op) or (np.power if op == "^" else np.arctan2)
    with np.errstate(all="ignore"):
        expected = [
            None if one is None or other is None else float(function(one, other))
            for one, other in zip(left, right, strict=True)
        ]
    found = table(ask(source, f"a {op} b", step=600, count=3)).get("{x=1}", [None] * 3)
    for value, wanted in zip(found, expected, strict=True):
        assert (value is None) == (wanted is None)
        assert wanted is None or np.array_equal(np.float64(value), wanted, equal_nan=True)  # type: ignore[arg-type]
