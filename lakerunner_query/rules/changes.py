"""Files are compared with the rules that are there: what is new, what changes, what goes.

    + group shop/errors
    ~ group shop/latency
      -  expr: rate(errors[5m])
      +  expr: rate(errors[10m])
    - metric shop_errors

Nothing goes unless it is asked for: then groups of the namespaces that the files fill, and derived metrics
where the files have any.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakerunner_query.rules.catalog import derived_of, group_of, put_of
from lakerunner_query.rules.chains import cycles
from lakerunner_query.rules.derived import clashes
from lakerunner_query.rules.documents import DerivedMetric, RecordingRule, RuleGroup
from lakerunner_query.rules.printing import rule_yaml
from lakerunner_query.rules.rule_files import RuleFile
from resources.index.rule_types import DropRule, RuleChange, RuleKind, RuleSet, StoredRule
from resources.yaml_nodes import Fault

_CONTEXT = 2
"""Lines around a change that the diff shows."""


class Action(StrEnum):
    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"


_SIGNS = {Action.ADD: "+", Action.CHANGE: "~", Action.REMOVE: "-"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A change and what it does."""

    action: Action
    change: RuleChange
    diff: str
    """Lines of the rule's YAML that come and go, of a change."""
    rule: RuleGroup | DerivedMetric | None = None
    """The rule as it will be; None of one that goes."""

    @property
    def place(self) -> str:
        return place_of(self.change)

    def shown(self) -> str:
        """Print the difference for a person."""
        head = f"{_SIGNS[self.action]} {self.place}\n"
        return head + "".join(f"  {line}\n" for line in self.diff.splitlines())


def place_of(rule: RuleChange | StoredRule) -> str:
    """Name a rule.

    >>> place_of(DropRule(RuleKind.GROUP, "shop", "errors"))
    'group shop/errors'
    """
    if rule.kind is RuleKind.DERIVED:
        return f"metric {rule.name}"
    return f"group {rule.namespace}/{rule.name}"


def rule_of(stored: StoredRule) -> RuleGroup | DerivedMetric:
    return group_of(stored) if stored.kind is RuleKind.GROUP else derived_of(stored)


def differences(current: RuleSet, files: Sequence[tuple[str, RuleFile]], *, prune: bool) -> list[Difference]:
    """Compare files, each with the namespace of groups that name none, with the rules that are there."""
    wanted: dict[tuple[str, str, str], tuple[RuleChange, RuleGroup | DerivedMetric]] = {}
    for otherwise, file in files:
        for namespace, group in file.groups:
            put = put_of(group, namespace or otherwise)
            wanted[put.kind, put.namespace, put.name] = put, group
        for metric in file.derived:
            put = put_of(metric)
            wanted[put.kind, put.namespace, put.name] = put, metric
    known = {(rule.kind.value, rule.namespace, rule.name): rule for rule in current.rules}
    found: list[Difference] = []
    for key, (change, rule) in wanted.items():
        old = known.get(key)
        if old is None:
            found.append(Difference(Action.ADD, change, "", rule))
        elif (before := rule_of(old)) != rule:
            found.append(Difference(Action.CHANGE, change, _diff(rule_yaml(before), rule_yaml(rule)), rule))
    return found + (_removed(current, wanted) if prune else [])


def _removed(current: RuleSet, wanted: Iterable[tuple[str, str, str]]) -> list[Difference]:
    keys = set(wanted)
    filled = {(kind, namespace) for kind, namespace, _ in keys}
    return [
        Difference(Action.REMOVE, DropRule(rule.kind, rule.namespace, rule.name), "")
        for rule in current.rules
        if (rule.kind, rule.namespace) in filled and (rule.kind, rule.namespace, rule.name) not in keys
    ]


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_CONTEXT)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def repeated(files: Sequence[tuple[str, RuleFile]]) -> list[Fault]:
    """List groups that stand twice under one namespace, in different files or documents."""
    seen: set[tuple[str, str]] = set()
    found = []
    for otherwise, file in files:
        for namespace, group in file.groups:
            key = (namespace or otherwise, group.name)
            if key in seen:
                found.append(Fault(group.line, f'group "{group.name}" is repeated in namespace "{key[0]}"'))
            seen.add(key)
    return found


def after(current: RuleSet, changed: Sequence[Difference]) -> list[RuleGroup | DerivedMetric]:
    """Return the rules as they will be."""
    touched = {(each.change.kind, each.change.namespace, each.change.name) for each in changed}
    stay = [one for one in current.rules if (one.kind, one.namespace, one.name) not in touched]
    return [*map(rule_of, stay), *(each.rule for each in changed if each.rule is not None)]


def new_names(changed: Sequence[Difference]) -> list[str]:
    """Return the series that derived metrics add."""
    added = [each.rule for each in changed if each.action is Action.ADD]
    return [name for one in added if isinstance(one, DerivedMetric) for name in one.series.values()]


def faults_of(current: RuleSet, changed: Sequence[Difference], sent: Collection[str]) -> list[Fault]:
    """List what the changes would break: names that are `sent` or recorded, too, and circles of rules."""
    rules = after(current, changed)
    groups = [rule for rule in rules if isinstance(rule, RuleGroup)]
    taken = dict.fromkeys(sent, "a metric that was sent")
    taken |= {rule.record: f'group "{group.name}"' for group, rule in _recordings(groups)}
    derived = [rule for rule in rules if isinstance(rule, DerivedMetric)]
    changed_groups = [each.rule for each in changed if isinstance(each.rule, RuleGroup)]
    return [*clashes(derived, taken), *_circles(groups, changed_groups)]


def _recordings(groups: Iterable[RuleGroup]) -> Iterator[tuple[RuleGroup, RecordingRule]]:
    for group in groups:
        yield from ((group, rule) for rule in group.rules if isinstance(rule, RecordingRule))


def _circles(groups: Sequence[RuleGroup], changed: Sequence[RuleGroup]) -> Iterator[Fault]:
    """Yield a circle of recording rules at the line of a changed rule on it."""
    records = {rule.record: rule.line for _, rule in _recordings(changed)}
    circle = cycles(groups) if records else ()
    if circle:
        line = next((records[name] for name in circle if name in records), 0)
        yield Fault(line, f"recording rules read each other in a circle: {' -> '.join(circle)}")
