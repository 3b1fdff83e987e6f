"""Label functions, templates and captures, and `info`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import SAME_LABELS, EvaluationError, LimitExceededError
from lakerunner_query.gotext.regexp import Template, capture
from lakerunner_query.promql.functions.labels import is_before
from tests.support.query.promql.evaluating import Written, ask
from tests.support.query.promql.functions_at_hand import asked, labels, ranged


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(
        ["(a)(b)?", "(?P<x>a+)(.*)", "(?:a|(b))c", r"\((a)[(]\)?(b*)", "a", "((a)(b(c)?))?", "(?i)(A)b"]
    ),
    st.text("abc()", max_size=6),
)
def test_captures_are_those_of_a_full_match(pattern: str, value: str) -> None:
    wanted = re.fullmatch(pattern, value, re.DOTALL)
    [found] = capture(pattern, [value])
    if wanted is None:
        assert found is None
        return
    assert found is not None
    assert [found[str(i)] for i in range(len(wanted.groups()) + 1)] == [
        wanted[0],
        *(one or "" for one in wanted.groups()),
    ]
    assert all(found[name] == (one or "") for name, one in wanted.groupdict().items())


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("$1-$2", "x-y"),
        ("${1}0 $10", "x0 "),
        ("$one$$", "x$"),
        ("$onetwo", ""),
        ("$ $- ${ ${1", "$ $- ${ ${1"),
        ("$01", ""),
        ("$0", "xy"),
    ],
)
def test_templates_name_groups_as_go_does(template: str, filled: str) -> None:
    assert Template(template).fill({"0": "xy", "1": "x", "one": "x", "2": "y"}) == filled


def test_names_of_digits_compare_as_numbers() -> None:
    order = ["", "2", "10", "a", "a2", "a10", "a10b", "b"]
    assert all(is_before(one, other) for i, one in enumerate(order) for other in order[i + 1 :])
    assert not any(is_before(other, one) for i, one in enumerate(order) for other in order[i + 1 :])


def test_label_replace_changes_what_matches_in_full() -> None:
    some = """
        m{src="db-7"} 1
        m{src="web"} 2
    """
    assert asked(some, 'label_replace(m, "dst", "$1!", "src", "db-(.*)")') == {
        labels(name="m", src="db-7", dst="7!"): 1.0,
        labels(name="m", src="web"): 2.0,
    }


def test_an_empty_replacement_takes_the_label_away() -> None:
    assert asked('m{a="1"} 1', 'label_replace(m, "a", "", "a", ".*")') == {labels(name="m"): 1.0}
    assert asked('m{a="1"} 1', 'label_join(m, "a", "-")') == {labels(name="m"): 1.0}


def test_a_name_that_is_set_stays() -> None:
    found = asked(
        'm_total{a="1"} 0 60', 'label_replace(rate(m_total[2m]), "__name__", "n", "a", "(.)")', at=60
    )
    assert list(found) == [labels(name="n", a="1")]
    joined = asked('m{a="1"} 0', 'label_join(abs(m), "__name__", ":", "a", "__name__")')
    assert list(joined) == [labels(name="1:m", a="1")]
    kept = asked('m{a="1"} 0', 'label_replace(abs(m), "b", "$1", "__name__", "(.*)")')
    assert list(kept) == [labels(a="1", b="m")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('label_replace(m, "a", "", "b", "(")', r"invalid regular expression in label_replace\(\): \("),
        ('label_replace(m, "", "", "b", "")', r"invalid destination label name in label_replace\(\): "),
        ('label_join(m, "", "-", "b")', r"invalid destination label name in label_join\(\): "),
        ('label_join(m, "a", "-", "")', r"invalid source label name in label_join\(\): "),
        ('label_replace(m, "a", "x", "a", ".*")', SAME_LABELS),
    ],
)
def test_what_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        asked('m{a="1"} 1\nm{a="2"} 2', text)


def test_series_that_become_one_are_joined_where_they_do_not_meet() -> None:
    some = 'm{a="1"} 1 _ stale\nm{a="2"} _ _ 3'
    assert ranged(some, 'label_replace(m, "a", "x", "a", ".*")', 0, 120, 120) == {
        labels(name="m", a="x"): [1.0, 3.0]
    }


INFO = """
    m{instance="a", job="j"} 1 2 3
    m{instance="b", job="j"} 1 2 3
    target_info{instance="a", job="j", v="1"} 1 1 stale
    target_info{instance="a", job="j", v="2"} _ _ 1
    build_info{instance="a", job="j", b="x"} 1 1 1
"""


def test_info_follows_its_series_over_time() -> None:
    assert ranged(INFO, 'info(m{instance="a"})', 0, 120, 60) == {
        labels(name="m", instance="a", job="j", v="1"): [1.0, 2.0, None],
        labels(name="m", instance="a", job="j", v="2"): [None, None, 3.0],
    }


def test_info_leaves_alone_what_it_knows_nothing_of() -> None:
    assert asked(INFO, 'info(m{instance="b"})') == {labels(name="m", instance="b", job="j"): 1.0}
    assert asked(INFO, 'info(m{instance="b"}, {v=~".+"})') == {}


def test_info_takes_the_labels_that_are_asked_for() -> None:
    found = asked(INFO, 'info(m{instance="a"}, {__name__=~".+_info", b="x"})')
    assert found == {labels(name="m", instance="a", job="j", b="x"): 1.0}


def test_info_refuses_series_that_say_two_things() -> None:
    two = INFO.replace('v="2"} _ _ 1', 'v="2"} 1')
    with pytest.raises(
        EvaluationError, match=r"found duplicate series for info metric: existing target_info\{.* @ 0, new"
    ):
        asked(two, "info(m)")
    with pytest.raises(EvaluationError, match="conflicting label: v"):
        asked(INFO.replace('b="x"', 'v="x"'), 'info(m, {__name__=~".+_info"})')


def test_info_looks_at_the_time_of_its_argument() -> None:
    assert list(asked(INFO, 'info(m{instance="a"} offset 1m)', at=120)) == [
        labels(name="m", instance="a", job="j", v="1")
    ]
    assert list(asked(INFO, 'info(sum_over_time((m{instance="a"} offset 1m)[1m:1m] @ 120))', at=9_999)) == [
        labels(instance="a", job="j", v="1")
    ]


def test_numbers_of_thousands_of_digits_compare_as_texts_do_in_go() -> None:
    ones, twos = "1" * 5_000, "2" * 5_000
    assert is_before(ones, twos)
    assert not is_before(twos, ones)
    assert is_before("0" * 5_000 + "1", "2")
    assert is_before(ones, "2")  # as no integer is that large, the texts decide


@pytest.mark.parametrize(
    "text",
    [
        "label_replace(" * 30 + "m" + ', "src", "$1$1", "src", "(.*)")' * 30,
        "label_join(" * 30 + "m" + ', "src", "-", "src", "src")' * 30,
        'label_join(m, "src", "' + "x" * 10_000 + '"' + ', "src"' * 10_000 + ")",
    ],
)
def test_labels_that_grow_are_refused_before_they_are_made(text: str) -> None:
    with pytest.raises(LimitExceededError, match="makes labels of more than"):
        ask(Written({'m{src="db-7"}': {0: 1.0}}), text)
