"""Equal label sets of different tables get equal numbers, whatever their ids say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.metrics import series_table
from lakerunner_query.worker.metrics.series_table import KnownLabelSets, SeriesNumbers, SeriesTable
from resources.lake import series
from resources.lake.streams import Labels

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", "z"]), max_size=3)
SETS = st.lists(LABELS.map(lambda one: tuple(sorted(one.items()))), min_size=1, max_size=12, unique=True)


def table(
    label_sets: Sequence[Labels], ids: Sequence[int], known: KnownLabelSets | None = None
) -> SeriesTable:
    numbers = np.arange(len(label_sets))
    columns = dict.fromkeys(("first_ms", "last_ms", "base", "exponent"), numbers * 0)
    built = series.build(
        label_sets, {"tid": np.array(ids, np.int64), "row": numbers, "rows": numbers * 0 + 1, **columns}
    )
    return SeriesTable.of(built.combine_chunks(), known)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(SETS, st.integers(1, 5)), min_size=1, max_size=6), st.randoms())
def test_numbers_stand_for_label_sets(parts: list[tuple[list[Labels], int]], random: object) -> None:
    numbering = SeriesNumbers()
    tables = []
    for label_sets, ids in parts:
        made = table(label_sets, [number % ids for number in range(len(label_sets))])  # ids that collide
        tables.append(made)
        chosen = np.array(sorted(random.sample(range(made.count), random.randint(0, made.count))), np.int64)  # type: ignore[attr-defined]
        numbering.of(made, chosen)
    for made, (label_sets, _) in zip(tables, parts, strict=True):
        found = numbering.of(made, np.arange(made.count)).tolist()
        assert [numbering.labels[number] for number in found] == list(label_sets)
    assert len(set(numbering.labels)) == len(numbering.labels)


def test_in_order_tells_places_and_labels() -> None:
    numbering = SeriesNumbers()
    sets: list[Labels] = [(("a", "z"),), (("a", "x"),), (("a", "y"),)]
    numbers = numbering.of(table(sets, [1, 2, 3]), np.arange(3))
    order, labels = numbering.in_order(numbers)
    assert order.tolist() == [1, 2, 0]
    assert list(labels) == sorted(sets)


def test_the_same_label_sets_are_matched_and_numbered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[int] = []
    match = series_table.match_texts

    def noted(matcher: Matcher, texts: list[str]) -> list[bool]:
        matched.append(len(texts))
        return match(matcher, texts)

    monkeypatch.setattr(series_table, "match_texts", noted)
    sets: list[Labels] = [(("a", "x"), ("b", "y")), (("a", "z"),)]
    known = KnownLabelSets()
    hours = [table(sets, [1, 2], known) for _ in range(3)]
    pattern = [Matcher("a", MatchOp.REGEX, "[xz]")]
    assert [one.matching(pattern).tolist() for one in hours] == [[True, True]] * 3
    assert matched == [2]
    assert hours[0].sets is hours[2].sets


@settings(max_examples=200, deadline=None)
@given(st.lists(SETS, min_size=2, max_size=8))
def test_other_label_sets_are_never_shared(parts: list[list[Labels]]) -> None:
    known = KnownLabelSets()
    tables = [table(sets, list(range(len(sets))), known) for sets in parts]
    for made, sets in zip(tables, parts, strict=True):
        assert [made.labels(number) for number in range(made.count)] == sets
