"""Label sets group and match series, once per series and never per step.

>>> series = [(("__name__", "up"), ("job", "a")), (("job", "b"),), (("job", "a"),)]
>>> groups = group_series(series, ("job",), is_without=False)
>>> groups.codes.tolist(), groups.labels
([0, 1, 0], [(('job', 'a'),), (('job', 'b'),)])
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import NAME, Labels
from resources.arrays import Flags, Int64s


def matches(matcher: Matcher, values: list[str]) -> Flags:
    """Flag the values that match.

    >>> from lakerunner_query.syntax import MatchOp
    >>> matches(Matcher("job", MatchOp.NOT_REGEX, "a.*"), ["ab", "b", ""]).tolist()
    [False, True, True]
    """
    if matcher.op.is_regex:
        found = np.array(full_matches(matcher.value, values), np.bool_)
    else:
        found = np.array([value == matcher.value for value in values], np.bool_)
    return ~found if matcher.op.is_negative else found


Key = TypeVar("Key")

METADATA = frozenset({NAME, "__type__", "__unit__"})
"""Labels that a function's result loses: it is not named, typed and measured as its argument."""


def drop_metadata(labels: Labels) -> Labels:
    return tuple(label for label in labels if label[0] not in METADATA)


def keep_labels(labels: Labels, names: Collection[str]) -> Labels:
    return tuple(label for label in labels if label[0] in names)


def drop_labels(labels: Labels, names: Collection[str]) -> Labels:
    return tuple(label for label in labels if label[0] not in names)


def value_of(labels: Labels, name: str) -> str:
    return next((value for one, value in labels if one == name), "")


def set_label(labels: Labels, name: str, value: str) -> Labels:
    """Set the label, or remove it by an empty value."""
    others = [label for label in labels if label[0] != name]
    return tuple(sorted([*others, (name, value)])) if value else tuple(others)


def key_of(names: Iterable[str], *, is_without: bool) -> Callable[[Labels], Labels]:
    """Return the key: `by` and `on` keep these labels, `without` and `ignoring` drop them and the name."""
    chosen = frozenset(names)
    if is_without:
        chosen |= {NAME}
        return lambda labels: drop_labels(labels, chosen)
    return lambda labels: keep_labels(labels, chosen)


@dataclass(frozen=True, slots=True)
class Groups:
    """Numbered groups of series."""

    codes: Int64s
    """Group of each series."""
    labels: list[Labels]
    """Labels of each group, in the order of their first series."""

    @property
    def count(self) -> int:
        return len(self.labels)

    def by_group(self) -> tuple[Int64s, Int64s]:
        """Return the series group by group, and the begin of each group."""
        order = np.argsort(self.codes, kind="stable").astype(np.int64)
        return order, np.searchsorted(self.codes[order], np.arange(len(self.labels) + 1)).astype(np.int64)


class SharedLabels(list[Labels]):
    """Labels of series that many queries read, with caches of what is computed from them."""

    def __init__(self, labels: Iterable[Labels]) -> None:
        super().__init__(labels)
        self.groups: dict[tuple[tuple[str, ...], bool], Groups] = {}
        self.names: dict[str, Labels] | None = None
        self.by_row: dict[Hashable, dict[str, object]] = {}
        """Cached facts about the samples of single series, by whoever computes them."""

    def for_other_samples(self) -> SharedLabels:
        """Return the same label sets with their caches, but none of samples."""
        found = SharedLabels(self)
        found.groups, found.names = self.groups, metric_names(self)
        return found


def group_series(labels: list[Labels], names: Iterable[str], *, is_without: bool) -> Groups:
    if not isinstance(labels, SharedLabels):
        return _group(labels, names, is_without=is_without)
    key = (tuple(names), is_without)
    if key not in labels.groups:
        labels.groups[key] = _group(labels, names, is_without=is_without)
    return labels.groups[key]


def _group(labels: list[Labels], names: Iterable[str], *, is_without: bool) -> Groups:
    key = key_of(names, is_without=is_without)
    codes: dict[Labels, int] = {}
    return Groups(number_keys((key(one) for one in labels), codes), list(codes))


def metric_names(labels: list[Labels]) -> dict[str, Labels]:
    """Return the metric names, and the first series of each."""
    if isinstance(labels, SharedLabels) and labels.names is not None:
        return labels.names
    found: dict[str, Labels] = {}
    for one in labels:
        if name := value_of(one, NAME):
            found.setdefault(name, one)
    if isinstance(labels, SharedLabels):
        labels.names = found
    return found


def number_keys(keys: Iterable[Key], codes: dict[Key, int]) -> Int64s:
    """Number the keys, new ones after those of `codes`, which grows."""
    return np.fromiter((codes.setdefault(key, len(codes)) for key in keys), np.int64)
