"""Rules are suggested from the query log: derived metrics that would have answered what was asked.

    120 times, 31 s, 4 GB   sum(rate({app="web"} |= "error"[5m]))
    ->  metric web_error, about 1 series; it would have read 3 MB instead

Leaves that differ only in what they narrow or group by share a rule. A rule is suggested only if every guard
that needs no index lets the whole query through; all other queries are listed with what stands against it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lakerunner_query.errors import QueryError
from lakerunner_query.plan.drafts import DIALECTS, PHASE_NS, Dialect, Readable
from lakerunner_query.plan.rewrite import ActiveRule, Leaf
from lakerunner_query.rules.derived import faults_of
from lakerunner_query.rules.documents import DerivedMetric, RuleLanguage
from resources.index.query_log import AskedQuery
from resources.lake.series import NAME_LABEL

BYTES_PER_SAMPLE = 6.0
"""Bytes of a sample of a derived metric in the lake, rather too many: of dense series it has about two."""
SAMPLES_PER_DAY = 8640
SHOWN = 5
"""Queries that are shown of a rule."""
_WORD = re.compile(r"[a-z0-9]+")
_MOST_WORDS, _MOST_LETTERS = 5, 60
_EMPTY_WORDS = frozenset(
    {"json", "logfmt", "duration", "resource", "service", "span", "name", "line", "sample"}
)
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Proposal:
    """Rule that would have served queries, and what that would have saved."""

    metric: DerivedMetric
    queries: tuple[str, ...]
    """Costliest queries that it would have served."""
    asked: int
    seconds: float
    """Time that they took."""
    read_bytes: float
    """Bytes that they read."""
    saved_seconds: float
    saved_bytes: float
    series: int
    """Estimate of its series at a time."""
    bytes_per_day: float
    """Bytes that it takes in the lake, if all series have events all the time."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """Query that no suggested rule serves, and why."""

    language: str
    query: str
    asked: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Suggestions:
    proposals: tuple[Proposal, ...]
    """The largest saving first."""
    unserved: tuple[Unserved, ...]
    """The costliest first."""
    has_rules: int = 0
    """Queries that rules which are there may serve."""


@dataclass(slots=True)
class _Case:
    """Query of the log, and the rules that would serve it."""

    asked: AskedQuery
    dialect: Dialect
    readable: Readable
    served_by: tuple[str, ...] = ()
    reason: str = ""


@dataclass(slots=True)
class _Usage:
    """Queries that one rule would serve."""

    metric: DerivedMetric
    parts: list[tuple[_Case, float, list[Leaf]]] = field(default_factory=list)
    """With the share of the query, and its leaves."""


def suggest(
    log: Sequence[AskedQuery],
    existing: Sequence[ActiveRule] = (),
    taken: Collection[str] = (),
    most_series: int = 10_000,
) -> Suggestions:
    """Suggest rules for queries; names in `taken` are not given again."""
    cases = [case for one in log if (case := _case(one)) is not None]
    made = {*taken, *(name for rule in existing for name in rule.metric.series.values())}
    waiting = [case for case in cases if not _is_served(case, existing)]
    for case in waiting:
        case.reason = _obstacle(case, existing, made)
    drafts = list(_named(_drafts([case for case in waiting if not case.reason]), made))
    rules = [*existing, *_active(drafts)]
    for case in waiting:
        if not case.reason:
            found = case.readable.rewrite(rules)
            served = found.cases if found is not None and found.is_whole else ()
            case.served_by = tuple(dict.fromkeys(each.metric.metric for each in served))
    proposals = _worth_it(waiting, drafts, most_series)
    unserved = [
        Unserved(one.asked.language, one.asked.query, one.asked.asked, one.asked.seconds, one.reason)
        for one in waiting
        if not one.served_by
    ]
    unserved.sort(key=lambda one: (-one.seconds, one.query))
    return Suggestions(tuple(proposals), tuple(unserved), len(cases) - len(waiting))


def _case(asked: AskedQuery) -> _Case | None:
    """Read a query; None where there is nothing that could be derived, or another version wrote it."""
    try:
        dialect = DIALECTS[RuleLanguage(asked.language)]
        readable = dialect.read(asked.query, 0 if asked.is_aligned else PHASE_NS)
    except (QueryError, ValueError, KeyError):
        return None
    return _Case(asked, dialect, readable) if readable.leaves and asked.asked > asked.served else None


def _reads(case: _Case, metrics: Collection[str]) -> bool:
    """Tell if a query names one of these metrics."""
    asked = (case.dialect.values(leaf).get(NAME_LABEL, ()) for leaf in case.readable.leaves)
    return case.asked.language == RuleLanguage.PROMQL and any(
        name in metrics for each in asked for name in each
    )


def _is_served(case: _Case, rules: Sequence[ActiveRule]) -> bool:
    found = case.readable.rewrite(rules)
    return found is not None and found.is_whole


def _obstacle(case: _Case, existing: Sequence[ActiveRule], made: Collection[str]) -> str:
    """Return why no rules can serve a query, not even those that are made for it alone."""
    if _reads(case, made):
        return "made: it reads samples that rules made"
    own = [case.dialect.draft([leaf]) for leaf in case.readable.leaves]
    if fault := next(filter(None, map(_fault, own)), ""):
        return fault
    found = case.readable.rewrite([*existing, *_active(own)])
    if found is not None and found.is_whole:
        return ""
    decisions = found.decisions if found is not None else ()
    refused = [f"{one.guard}: {one.reason}" for one in decisions if one.guard]
    return next(iter(refused), "no rule can serve it")


def _active(metrics: Sequence[DerivedMetric]) -> list[ActiveRule]:
    return [ActiveRule(-1 - number, 1, metric) for number, metric in enumerate(metrics)]


def _drafts(cases: Sequence[_Case]) -> Iterator[DerivedMetric]:
    """Yield one rule for all leaves of a kind if it serves them, else one for each way to narrow them."""
    kinds: dict[Hashable, list[tuple[_Case, Leaf]]] = {}
    for case in cases:
        for leaf in case.readable.leaves:
            key = (case.asked.language, case.dialect.kind(leaf))
            kinds.setdefault(key, []).append((case, leaf))
    for members in kinds.values():
        dialect = members[0][0].dialect
        whole = dialect.draft([leaf for _, leaf in members])
        left = members if _fault(whole) else [one for one in members if not _fits(one, whole)]
        if len(left) < len(members):
            yield whole
        groups: dict[Hashable, list[Leaf]] = {}
        for _, leaf in left:
            groups.setdefault(dialect.conditions(leaf), []).append(leaf)
        for leaves in groups.values():
            yield dialect.draft(leaves)


def _fits(member: tuple[_Case, Leaf], draft: DerivedMetric) -> bool:
    """Tell if a rule gets a leaf past all early guards, whatever else is in its query."""
    case, leaf = member
    found = case.readable.rewrite(_active([draft]))
    decisions = found.decisions if found is not None else ()
    return any(one.leaf == leaf.text and not one.guard for one in decisions)


def _fault(metric: DerivedMetric) -> str:
    return next((message for _, message in faults_of(replace(metric, metric="named"))), "")


def _named(drafts: Iterator[DerivedMetric], taken: set[str]) -> Iterator[DerivedMetric]:
    for draft in drafts:
        base = name_of(draft)
        number, metric = 1, replace(draft, metric=base)
        while taken & {*metric.series.values()}:
            number += 1
            metric = replace(draft, metric=f"{base}_{number}")
        taken |= {*metric.series.values()}
        yield metric


def name_of(draft: DerivedMetric) -> str:
    """Make a name of the texts that a rule asks for.

    >>> name_of(DerivedMetric("", Signal.LOGS, '{app="web"} |= "time out"', (), "duration(took)"))
    'web_time_out_took'
    >>> name_of(DerivedMetric("", Signal.LOGS, '{app=~".+"} | json | __error__="" | status>=500'))
    'status_500'
    """
    text = draft.select.replace('__error__=""', "")
    selector = text[: text.find("}") + 1]
    selector = "" if selector == text else selector  # all that is asked for stands in the braces
    texts = [*_QUOTED.findall(selector), text[len(selector) :], draft.value]
    words = [word for one in texts for word in _WORD.findall(one.lower()) if word not in _EMPTY_WORDS]
    words = list(dict.fromkeys(words))[:_MOST_WORDS] or [_UNSAFE.sub("_", one) for one in draft.keep[:1]]
    name = "_".join(words)[:_MOST_LETTERS].strip("_")
    return name if len(words) > 1 and not name[0].isdigit() else f"{draft.source.value}_{name}".strip("_")


def _worth_it(cases: Sequence[_Case], drafts: Sequence[DerivedMetric], most_series: int) -> list[Proposal]:
    """Return rules that save something, the best first; queries of all others are left without."""
    while True:
        found = [_proposal(usage) for usage in _usages(cases, drafts)]
        against = {one.metric.metric: reason for one in found if (reason := _objection(one, most_series))}
        if not against:
            return sorted(found, key=lambda one: (-one.saved_seconds, one.metric.metric))
        for case in cases:
            for name in case.served_by:
                if name in against:
                    case.served_by, case.reason = (), against[name]
                    break


def _objection(proposal: Proposal, most_series: int) -> str:
    if proposal.series > most_series:
        return f"limits: a rule would have about {proposal.series} series, more than {most_series}"
    return "" if proposal.saved_bytes > 0 else "cost: a derived metric would be as large as what is read"


def _usages(cases: Sequence[_Case], drafts: Sequence[DerivedMetric]) -> list[_Usage]:
    """Return the rules that serve any query, with their queries."""
    usages = {draft.metric: _Usage(draft) for draft in drafts}
    for case in cases:
        mine = [name for name in case.served_by if name in usages]
        for name in mine:
            fitting = [leaf for leaf in case.readable.leaves if _fits((case, leaf), usages[name].metric)]
            usages[name].parts.append((case, 1 / len(mine), fitting))
    return [usage for usage in usages.values() if usage.parts]


def _proposal(usage: _Usage) -> Proposal:
    series = _series(usage)
    seconds = read = saved_seconds = saved_bytes = 0.0
    for case, share, _ in usage.parts:
        asked = case.asked
        would_read = series * asked.window_s / 10 * BYTES_PER_SAMPLE * share
        saved = max(0.0, asked.read_bytes * share - would_read)
        seconds, read = seconds + asked.seconds * share, read + asked.read_bytes * share
        saved_bytes += saved
        saved_seconds += asked.seconds * saved / asked.read_bytes if asked.read_bytes else 0.0
    usage.parts.sort(key=lambda part: (-part[0].asked.seconds, part[0].asked.query))
    return Proposal(
        usage.metric,
        tuple(case.asked.query for case, _, _ in usage.parts[:SHOWN]),
        sum(case.asked.asked - case.asked.served for case, _, _ in usage.parts),
        seconds,
        read,
        saved_seconds,
        saved_bytes,
        series,
        series * SAMPLES_PER_DAY * BYTES_PER_SAMPLE,
    )


def _series(usage: _Usage) -> int:
    """Estimate the series of a rule: those of the answers that tell its labels, times values asked for."""
    labels = {_UNSAFE.sub("_", name) for name in usage.metric.keep}
    values: dict[str, set[str]] = {}
    groups: list[tuple[int, frozenset[str]]] = []
    for case, _, leaves in usage.parts:
        for leaf in leaves:
            groups.append((max(1, case.asked.series), frozenset(leaf.by or ()) & labels))
            for name, each in case.dialect.values(leaf).items():
                values.setdefault(name, set()).update(each)
    total, known = 1, set[str]()
    for count, by in sorted(groups, key=lambda one: (-one[0], sorted(one[1]))):
        if by - known:
            total, known = total * count, known | by
    for label in labels - known:
        total *= max(1, len(values.get(label, ())))
    total = max([total, *(count for count, _ in groups)])
    return total * len(usage.metric.series)
