"""Rules are JSON documents in the index, and are read back strictly.

to_document(RuleGroup("shop", (AlertRule("Many", "errors > 1", for_ms=60_000),)))
    {"name": "shop", "language": "promql", "rules": [{"rule": "alert", "alert": "Many", …}]}

A key that this version does not know is an error: a newer version wrote it, and it may mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from lakerunner_query.rules.documents import (
    AlertRule,
    DerivedMetric,
    RecordingRule,
    Rule,
    RuleGroup,
    RuleLanguage,
)
from resources.index.rule_types import PutRule, RuleKind, StoredRule
from resources.lake.layout import Signal


class CatalogError(ValueError):
    """A document of the index that is not a rule of this version."""


class _Recording(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, tag_field="rule", tag="record"
):
    record: str
    expr: str
    labels: dict[str, str] = {}


class _Alert(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, tag_field="rule", tag="alert"):
    alert: str
    expr: str
    for_ms: int = 0
    keep_firing_for_ms: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Group(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    language: RuleLanguage
    rules: list[_Recording | _Alert]
    interval_ms: int = 0
    query_offset_ms: int | None = None
    limit: int = 0
    labels: dict[str, str] = {}


class _Derived(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    metric: str
    source: Signal
    select: str
    keep: list[str] = []
    value: str = ""
    since_ns: int | None = None


def to_document(rule: RuleGroup | DerivedMetric) -> dict[str, object]:
    """Return the JSON form of a rule, without its line."""
    shown: object
    if isinstance(rule, RuleGroup):
        shown = _Group(
            rule.name,
            rule.language,
            [_document_of(each) for each in rule.rules],
            rule.interval_ms,
            rule.query_offset_ms,
            rule.limit,
            dict(rule.labels),
        )
    else:
        shown = _Derived(rule.metric, rule.source, rule.select, list(rule.keep), rule.value, rule.since_ns)
    document: dict[str, object] = msgspec.to_builtins(shown)
    return document


def put_of(rule: RuleGroup | DerivedMetric, namespace: str = "") -> PutRule:
    """Return the change that adds a rule; derived metrics have no namespace."""
    if isinstance(rule, RuleGroup):
        return PutRule(RuleKind.GROUP, namespace, rule.name, to_document(rule))
    return PutRule(RuleKind.DERIVED, "", rule.metric, to_document(rule))


def group_of(stored: StoredRule) -> RuleGroup:
    """Read a group of the index."""
    found = _read(stored, _Group)
    return RuleGroup(
        found.name,
        tuple(_rule_of(each) for each in found.rules),
        found.language,
        found.interval_ms,
        found.query_offset_ms,
        found.limit,
        found.labels,
    )


def derived_of(stored: StoredRule) -> DerivedMetric:
    """Read a derived metric of the index."""
    found = _read(stored, _Derived)
    return DerivedMetric(
        found.metric, found.source, found.select, tuple(found.keep), found.value, found.since_ns
    )


def _document_of(rule: Rule) -> _Recording | _Alert:
    if isinstance(rule, RecordingRule):
        return _Recording(rule.record, rule.expr, dict(rule.labels))
    return _Alert(
        rule.alert,
        rule.expr,
        rule.for_ms,
        rule.keep_firing_for_ms,
        dict(rule.labels),
        dict(rule.annotations),
    )


def _rule_of(found: _Recording | _Alert) -> Rule:
    if isinstance(found, _Recording):
        return RecordingRule(found.record, found.expr, found.labels)
    return AlertRule(
        found.alert, found.expr, found.for_ms, found.keep_firing_for_ms, found.labels, found.annotations
    )


Document = TypeVar("Document", _Group, _Derived)
_KINDS: Mapping[type[object], RuleKind] = {_Group: RuleKind.GROUP, _Derived: RuleKind.DERIVED}


def _read(stored: StoredRule, form: type[Document]) -> Document:
    place = f"{stored.kind.value} {stored.namespace}/{stored.name} of {stored.org}, version {stored.version}"
    if stored.kind is not _KINDS[form]:
        raise CatalogError(f"{place}: expected a {_KINDS[form].value}")
    try:
        return msgspec.convert(stored.document, form)
    except msgspec.ValidationError as error:
        raise CatalogError(f"{place}: {error}") from error
