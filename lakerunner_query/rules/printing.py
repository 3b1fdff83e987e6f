"""Rules are printed as YAML that reads back as the same rules.

name: shop
interval: 1m
rules:
- record: shop:errors:rate5m
  expr: rate(errors[5m])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from lakerunner_query.gotext import durations
from lakerunner_query.rules.documents import AlertRule, DerivedMetric, Rule, RuleGroup, RuleLanguage

_WIDTH = 1 << 20
"""Characters of a line; none is ever folded."""


class _Dumper(yaml.CSafeDumper):  # type: ignore[misc]
    """Dumper without aliases; texts of several lines are blocks."""

    def ignore_aliases(self, _: object) -> bool:
        return True


def _text(dumper: yaml.Dumper, value: str) -> yaml.Node:
    is_block = "\n" in value and value.strip() == value.rstrip("\n")
    style = "|" if is_block else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def group_yaml(group: RuleGroup) -> str:
    """Print one group, as the ruler APIs answer it."""
    return _dump(_group(group))


def groups_yaml(groups: Iterable[tuple[str, RuleGroup]]) -> str:
    """Print groups by namespace, as the ruler APIs list them."""
    found: dict[str, list[object]] = {}
    for namespace, group in groups:
        found.setdefault(namespace, []).append(_group(group))
    return _dump(found)


def files_yaml(groups: Iterable[tuple[str, RuleGroup]], derived: Iterable[DerivedMetric]) -> str:
    """Print everything as documents of a rule file, one per namespace and one of derived metrics."""
    found: dict[str, list[object]] = {}
    for namespace, group in groups:
        found.setdefault(namespace, []).append(_group(group))
    documents: list[object] = [
        {**({"namespace": namespace} if namespace else {}), "groups": below}
        for namespace, below in found.items()
    ]
    if listed := [_derived(metric) for metric in derived]:
        documents.append({"materialize": listed})
    return "---\n".join(map(_dump, documents))


def rule_yaml(rule: RuleGroup | DerivedMetric) -> str:
    return group_yaml(rule) if isinstance(rule, RuleGroup) else _dump(_derived(rule))


def _dump(value: object) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def _group(group: RuleGroup) -> dict[str, object]:
    return _without_empty(
        {
            "name": group.name,
            "language": "" if group.language is RuleLanguage.PROMQL else group.language.value,
            "interval": _duration(group.interval_ms),
            "query_offset": None if group.query_offset_ms is None else durations.text(group.query_offset_ms),
            "limit": group.limit,
            "labels": _sorted(group.labels),
        }
    ) | {"rules": [_rule(rule) for rule in group.rules]}


def _rule(rule: Rule) -> dict[str, object]:
    if isinstance(rule, AlertRule):
        shown: dict[str, Any] = {
            "alert": rule.alert,
            "expr": rule.expr,
            "for": _duration(rule.for_ms),
            "keep_firing_for": _duration(rule.keep_firing_for_ms),
            "labels": _sorted(rule.labels),
            "annotations": _sorted(rule.annotations),
        }
    else:
        shown = {"record": rule.record, "expr": rule.expr, "labels": _sorted(rule.labels)}
    return _without_empty(shown)


def _derived(metric: DerivedMetric) -> dict[str, object]:
    return _without_empty(
        {
            "metric": metric.metric,
            "from": metric.source.value,
            "select": metric.select,
            "keep": list(metric.keep),
            "value": metric.value,
            "since": "" if metric.since_ns is None else _moment(metric.since_ns),
        }
    )


def _moment(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _duration(milliseconds: int) -> str:
    return durations.text(milliseconds) if milliseconds else ""


def _sorted(texts: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(texts.items()))


def _without_empty(shown: Mapping[str, Any]) -> dict[str, object]:
    return {name: value for name, value in shown.items() if value not in (None, "", 0, [], {})}
