"""`info` copies labels of info series to series of the same instance and job.

    up{instance="a", job="b"}, target_info{instance="a", job="b", version="2"}

    info(up)  ->  up{instance="a", job="b", version="2"}

Info series are read as of the times that all selectors below share, else at the evaluation times. A sample
without any stays as it is, unless the second argument requires a label that is not empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.promql.context import Context
from lakerunner_query.promql.functions.windows import histogram_flags, vector_of
from lakerunner_query.promql.lang.ast import NO_SHIFT, Call, Selector
from lakerunner_query.promql.lang.bind import lookup_shift
from lakerunner_query.promql.selectors import milliseconds, strip_parens
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.labels import keep_labels, matches, value_of
from lakerunner_query.vectors.rows import drop_empty_rows, merge_rows, stack_rows
from lakerunner_query.vectors.vector import NAME, Labels, Series, Value, Vector
from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Flags, Int64s

IDENTIFYING = ("instance", "job")
_DEFAULT = Matcher(NAME, MatchOp.EQUAL, "target_info")
_ANY_INFO = Matcher(NAME, MatchOp.REGEX, ".+_info")
_NONE = -1


def info(context: Context, call: Call) -> Value:
    vector = vector_of(context, call)
    matchers = _selector(call)
    names = _name_matchers(matchers)
    wanted = tuple(matcher for matcher in matchers if matcher.name != NAME)
    are_infos = _match_all(names, [value_of(labels, NAME) for labels in vector.labels])
    found = _select_infos(context, call, vector, are_infos, (*names, *wanted))
    return _enrich(vector, are_infos, found, wanted)


def _selector(call: Call) -> tuple[Matcher, ...]:
    if len(call.arguments) < 2:
        return ()
    selector = strip_parens(call.arguments[1])
    if not isinstance(selector, Selector):
        raise EvaluationError("expected label selectors as the second argument to info function")
    return selector.matchers


def _name_matchers(matchers: Sequence[Matcher]) -> tuple[Matcher, ...]:
    """Return the matchers of info metric names; negative ones alone apply to all names ending in `_info`."""
    names = tuple(matcher for matcher in matchers if matcher.name == NAME)
    if not names:
        return (_DEFAULT,)
    return names if any(not matcher.op.is_negative for matcher in names) else (_ANY_INFO, *names)


def _match_all(matchers: Sequence[Matcher], values: list[str]) -> Flags:
    found = np.ones(len(values), np.bool_)
    for matcher in matchers:
        found &= matches(matcher, values)
    return found


@dataclass(frozen=True, slots=True)
class InfoSeries:
    labels: list[Labels]
    newest: Int64s
    """Newest sample by info series and step; -1 for none."""
    time_ms: Int64s
    """Times of the samples."""

    def joined(self, other: InfoSeries) -> InfoSeries:
        newest = np.where(other.newest == _NONE, _NONE, other.newest + len(self.time_ms))
        return InfoSeries(
            [*self.labels, *other.labels],
            np.concatenate((self.newest, newest)),
            np.concatenate((self.time_ms, other.time_ms)),
        )


def _select_infos(
    context: Context, call: Call, vector: Vector, are_infos: Flags, matchers: Sequence[Matcher]
) -> InfoSeries:
    """Read the info series of the instances and jobs in the vector."""
    steps = context.steps.count
    others = [labels for labels, is_info in zip(vector.labels, are_infos, strict=True) if not is_info]
    times = _lookup_times(context, call)
    lookback = context.options.lookback_ms
    found = InfoSeries([], np.zeros((0, steps), np.int64), np.zeros(0, np.int64))
    for identity in _identity_matchers(others):
        series = context.source.select((*matchers, *identity), int(times.min()) - lookback, int(times.max()))
        found = found.joined(InfoSeries(series.labels, _newest(series, times, lookback), series.time_ms))
    return found


def _lookup_times(context: Context, call: Call) -> Int64s:
    """Return the times that the samples of the first argument belong to, by step."""
    times, shift = context.steps.times_ms, lookup_shift(call.arguments[0]) or NO_SHIFT
    return times - milliseconds(shift.offset) if shift.at is None else np.full_like(times, shift.at)


def _identity_matchers(labels: list[Labels]) -> Iterator[tuple[Matcher, ...]]:
    """Yield the matchers of series with both labels, and of those with one of them only."""
    found: dict[tuple[bool, ...], list[Labels]] = {}
    for one in labels:
        found.setdefault(tuple(value_of(one, name) != "" for name in IDENTIFYING), []).append(one)
    for has, alike in sorted(found.items()):
        if any(has):
            yield tuple(map(partial(_identity_matcher, alike), IDENTIFYING))


def _identity_matcher(labels: list[Labels], name: str) -> Matcher:
    values = sorted({value_of(one, name) for one in labels})
    if values == [""]:
        return Matcher(name, MatchOp.EQUAL, "")
    return Matcher(name, MatchOp.REGEX, "|".join(map(_escape_regex, values)))


def _escape_regex(text: str) -> str:
    return "".join(f"\\{one}" if one in r"\.+*?()|[]{}^$" else one for one in text)


def _newest(series: Series, times: Int64s, lookback: int) -> Int64s:
    """Find the newest sample by series and step; stale markers end a series."""
    found = np.full((series.count, len(times)), _NONE, np.int64)
    is_stale = series.value.view(np.int64) == STALE_BITS
    is_histogram = None if series.histograms is None else histogram_flags(series.histograms)
    for row in range(series.count):
        begin, end = series.offsets[row : row + 2].tolist()
        at = begin + np.searchsorted(series.time_ms[begin:end], times, "right") - 1
        is_there = at >= begin
        at = np.where(is_there, at, begin)
        if begin < end:
            is_there &= (series.time_ms[at] > times - lookback) & ~is_stale[at]
            if is_histogram is not None and (is_histogram[at] & is_there).any():
                raise EvaluationError("info sample should be float")
            found[row] = np.where(is_there, at, _NONE)
    return found


def _enrich(vector: Vector, are_infos: Flags, infos: InfoSeries, wanted: Sequence[Matcher]) -> Vector:
    """Split each row into pieces, one for each combination of info series it meets."""
    may_lack = all(matches(matcher, [""])[0] for matcher in wanted)
    names = frozenset(matcher.name for matcher in wanted)
    chosen = _choose(infos, np.asarray(vector.present.any(axis=0)))
    pieces: list[Vector] = [vector.take(are_infos)]
    for row in np.flatnonzero(~are_infos).tolist():
        labels = vector.labels[row]
        for column, at in _combinations(
            chosen.get(keep_labels(labels, IDENTIFYING), []), vector.present.shape[1]
        ):
            met = [infos.labels[one] for one in column if one != _NONE]
            present = vector.present[row] & at
            if not present.any() or not (met or may_lack):
                continue
            piece = replace(vector.take(np.array([row])), present=present.reshape(1, -1))
            pieces.append(piece.with_labels([_join_labels(labels, met, names)]))
    return merge_rows(drop_empty_rows(stack_rows(pieces)))


def _choose(infos: InfoSeries, is_asked: Flags) -> dict[Labels, list[Int64s]]:
    """Choose the series of every info metric at each step, by instance and job."""
    rows: dict[Labels, dict[str, list[int]]] = {}
    for row, labels in enumerate(infos.labels):
        of_identity = rows.setdefault(keep_labels(labels, IDENTIFYING), {})
        of_identity.setdefault(value_of(labels, NAME), []).append(row)
    return {
        identity: [_newest_of(infos, of_name[name], is_asked) for name in sorted(of_name)]
        for identity, of_name in rows.items()
    }


def _newest_of(infos: InfoSeries, rows: list[int], is_asked: Flags) -> Int64s:
    """Choose the series with the newest sample at each step; -1 for none."""
    newest = infos.newest[rows]
    times = np.where(newest == _NONE, np.iinfo(np.int64).min, infos.time_ms[newest])
    best = times.argmax(axis=0)
    steps = np.arange(newest.shape[1])
    is_there = newest[best, steps] != _NONE
    equal = (times == times[best, steps]) & is_there
    conflicts = np.flatnonzero((equal.sum(axis=0) > 1) & is_asked)
    if len(conflicts):
        step = int(conflicts[0])
        first, second = np.flatnonzero(equal[:, step]).tolist()[:2]
        told = " ".join(
            f"{word} {_format_series(infos.labels[rows[one]])} @ {int(times[one, step])}{end}"
            for word, one, end in (("existing", first, ","), ("new", second, ""))
        )
        raise EvaluationError(f"found duplicate series for info metric: {told}")
    found: Int64s = np.where(is_there, np.array(rows)[best], _NONE)
    return found


def _format_series(labels: Labels) -> str:
    others = tuple(label for label in labels if label[0] != NAME)
    return value_of(labels, NAME) + label_set(others)


def _combinations(chosen: list[Int64s], steps: int) -> Iterator[tuple[list[int], Flags]]:
    """Yield the distinct combinations of info series with the steps that have them."""
    if not chosen:
        yield [], np.ones(steps, np.bool_)
        return
    columns, at = np.unique(np.array(chosen), axis=1, return_inverse=True)
    for number, column in enumerate(columns.T.tolist()):
        yield column, at.ravel() == number


def _join_labels(labels: Labels, met: list[Labels], names: frozenset[str]) -> Labels:
    """Add labels of info series; present labels win, and contradicting info series raise."""
    own = {name for name, _ in labels}
    added: dict[str, str] = {}
    for info_labels in met:
        for name, value in info_labels:
            if name == NAME or (names and name not in names):
                continue
            if added.get(name, value) != value:
                raise EvaluationError(f"conflicting label: {name}")
            if name not in own:
                added[name] = value
    return tuple(sorted((*labels, *added.items())))
