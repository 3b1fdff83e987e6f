"""Rule files are read as Prometheus and Loki read them, with some more keys.

    groups:                       one document in the strict form, as `promtool check rules` takes it
    - name: shop
      rules:
      - {record: shop:errors:rate5m, expr: rate(errors[5m])}

    namespace: shop               further keys of ours and of mimirtool, in any number of documents
    groups: [{name: shop, language: traceql, rules: […]}]
    materialize: [{metric: shop_errors, from: logs, select: '{app="shop"} |= "error"'}]

A file is read to its end: all of its faults are known, with their lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.durations import PROMETHEUS
from lakerunner_query.promql.lang.cursor import ALL_FEATURES, Features
from lakerunner_query.rules.checks import check_group, lint, place_of
from lakerunner_query.rules.derived import clashes, doubts_of, read_derived
from lakerunner_query.rules.documents import (
    AlertRule,
    DerivedMetric,
    RecordingRule,
    Rule,
    RuleGroup,
    RuleLanguage,
)
from resources.yaml_nodes import Fault, Fields, Node, Reading, YamlError, compose

_FILE = "rulefmt.RuleGroups"
_GROUP = "rulefmt.RuleGroup"
_RULE = "rulefmt.Rule"
_GROUP_KEYS = ("name", "interval", "query_offset", "limit", "rules", "labels")
_RULE_KEYS = ("record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations")


class RuleFileError(QueryError):
    """Rules that are refused, each with its place."""

    status = 400
    code = "invalid_rules"

    def __init__(self, faults: Iterable[str]) -> None:
        super().__init__("\n".join(faults))

    @classmethod
    def of(cls, faults: Iterable[Fault], file: str = "") -> RuleFileError:
        return cls(fault.at(file) for fault in faults)


@dataclass(frozen=True, slots=True)
class FileForm:
    """Rules by which a file is read."""

    language: RuleLanguage = RuleLanguage.PROMQL
    """Language of groups that name none."""
    is_strict: bool = False
    """Only the first document is read, and only the keys of Prometheus are known."""
    features: Features = ALL_FEATURES


@dataclass(slots=True)
class RuleFile:
    """Contents of a file."""

    groups: list[tuple[str, RuleGroup]] = field(default_factory=list)
    """Groups with the namespace that their document names, or an empty one."""
    derived: list[DerivedMetric] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def warnings(self) -> list[Fault]:
        """List what is allowed and still looks wrong."""
        doubts = [
            Fault(metric.line, f'metric "{metric.metric}": {doubt}')
            for metric in self.derived
            for doubt in doubts_of(metric)
        ]
        return lint(group for _, group in self.groups) + doubts

    def require(self, file: str = "") -> RuleFile:
        """Return the file if nothing is wrong with it."""
        if self.faults:
            raise RuleFileError.of(self.faults, file)
        return self


def read_file(text: bytes, form: FileForm = FileForm()) -> RuleFile:
    """Read a file to its end; its faults are part of the answer."""
    found = RuleFile()
    reading = Reading(PROMETHEUS.parse)
    try:
        documents = compose(text)
        for document in documents[:1] if form.is_strict else documents:
            _read_document(reading, document, form, found)
        reading.faults += clashes(found.derived, {})
    except YamlError as error:
        reading.faults.append(error.fault)
    found.faults = sorted(reading.faults, key=lambda fault: fault.line)
    return found


def read_group(text: bytes, form: FileForm = FileForm()) -> RuleGroup:
    """Read the one group that a text is, as the ruler APIs take it, or raise `RuleFileError`."""
    reading = Reading(PROMETHEUS.parse)
    try:
        documents = compose(text) or [Node("!!null", 1)]
        group = _group(reading, documents[0], form)
    except YamlError as error:
        raise RuleFileError.of([error.fault]) from error
    if len(documents) > 1:
        reading.fault(documents[1].line, f"expected one rule group, found {len(documents)} documents")
    _check(reading, group, form)
    if reading.faults:
        raise RuleFileError.of(sorted(reading.faults, key=lambda fault: fault.line))
    return group


def _read_document(reading: Reading, document: Node, form: FileForm, found: RuleFile) -> None:
    known = ("groups",) if form.is_strict else ("groups", "namespace", "materialize")
    fields = reading.fields(document, _FILE, known)
    namespace = fields.text("namespace")
    names = {group.name for there, group in found.groups if there == namespace}
    for node in fields.items("groups", _GROUP):
        group = _group(reading, node, form)
        if group.name in names:
            reading.fault(group.line, f'groupname: "{group.name}" is repeated in the same file')
        names.add(group.name)
        _check(reading, group, form)
        found.groups.append((namespace, group))
    for node in fields.items("materialize", "DerivedMetric"):
        metric = read_derived(reading, node)
        if metric is not None:
            found.derived.append(metric)


def _group(reading: Reading, node: Node, form: FileForm) -> RuleGroup:
    fields = reading.fields(node, _GROUP, _GROUP_KEYS if form.is_strict else (*_GROUP_KEYS, "language"))
    name = fields.text("name")
    return RuleGroup(
        name,
        tuple(
            _rule(reading, each, name, number)
            for number, each in enumerate(fields.items("rules", _RULE), start=1)
        ),
        _language(reading, fields, form.language),
        fields.duration_ms("interval") or 0,
        fields.duration_ms("query_offset"),
        fields.number("limit"),
        fields.texts("labels"),
        fields.line_of("name"),
    )


def _language(reading: Reading, fields: Fields, otherwise: RuleLanguage) -> RuleLanguage:
    if "language" not in fields:
        return otherwise
    named = fields.text("language")
    if named in set(RuleLanguage):
        return RuleLanguage(named)
    known = ", ".join(RuleLanguage)
    reading.fault(fields.line_of("language"), f"language {named!r}: expected one of {known}")
    return otherwise


def _rule(reading: Reading, node: Node, group: str, number: int) -> Rule:
    """Read a rule; of one that is both or neither, the faults are noted here."""
    fields = reading.fields(node, _RULE, _RULE_KEYS)
    record, alert, expr = fields.text("record"), fields.text("alert"), fields.text("expr")
    for_ms = fields.duration_ms("for") or 0
    keep_ms = fields.duration_ms("keep_firing_for") or 0
    labels, annotations = fields.texts("labels"), fields.texts("annotations")
    prefix = place_of(group, number, alert or record)
    if record and alert:
        reading.fault(fields.line_of("alert"), f"{prefix}only one of 'record' and 'alert' must be set")
    if not (record or alert):
        reading.fault(node.line, f"{prefix}one of 'record' or 'alert' must be set")
    line = fields.line_of("expr")
    if alert or not record:
        return AlertRule(alert, expr, for_ms, keep_ms, labels, annotations, line)
    foreign = {"annotations": annotations, "for": for_ms, "keep_firing_for": keep_ms}
    for name, value in foreign.items():
        if value:
            reading.fault(fields.line_of(name), f"{prefix}invalid field '{name}' in recording rule")
    return RecordingRule(record, expr, labels, line)


def _check(reading: Reading, group: RuleGroup, form: FileForm) -> None:
    for fault in check_group(group, form.features):
        reading.faults.append(fault)
