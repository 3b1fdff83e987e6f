"""Differences between signals stand in tables; no other module asks which signal it works on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.spec import SignalSpec
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, SignalFacts

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (
    "lakerunner_assets",
    "lakerunner_query",
    "lakerunner_ingress",
    "lakerunner_sampling",
    "lakerunner_cli",
    "resources",
    "sensors",
)
TABLES = {
    "resources/lake/signals.py": "facts that every process shares",
    "lakerunner_assets/signals/logs.py": "what only the pipeline needs",
    "lakerunner_assets/signals/metrics.py": "the same",
    "lakerunner_assets/signals/traces.py": "the same",
    "lakerunner_assets/decode/foreign/tables.py": "decoders of foreign rows, which signals choose by name",
    "lakerunner_assets/materialized/rules.py": "evaluation of rules, by what they are derived from",
    "lakerunner_query/rules/derived.py": "checks of rules, by what they are derived from",
    "lakerunner_query/worker/tables/columns.py": "SQL for the columns of each table",
    "lakerunner_ingress/receivers/otlp.py": "messages of OTLP, which only the ingress answers with",
}
MEMBERS = set(Signal.__members__)


def members(node: ast.AST) -> Iterator[str]:
    """Yield the signals named in an expression: `Signal.LOGS`, also `.value` of it."""
    for each in ast.walk(node):
        is_member = isinstance(each, ast.Attribute) and each.attr in MEMBERS
        if is_member and isinstance(each.value, ast.Name) and each.value.id == "Signal":
            yield each.attr


def offences(source: str) -> list[str]:
    """Find dictionaries keyed by two or more signals, and comparisons or patterns with one."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict) and len({m for key in node.keys if key for m in members(key)}) > 1:
            found.append(f"{node.lineno}: a dictionary by signal")
        elif isinstance(node, ast.Compare) and list(members(node)):
            found.append(f"{node.lineno}: a comparison with a signal")
        elif isinstance(node, ast.MatchValue) and list(members(node)):
            found.append(f"{node.lineno}: a case of a signal")
    return sorted(found)


@pytest.mark.parametrize("package", PRODUCT)
def test_only_tables_know_signals_apart(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in sorted((ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in TABLES
        for each in offences(path.read_text())
    ]
    assert not found, "make it a field of SignalSpec or of SignalFacts"


def test_every_table_exists_and_is_one() -> None:
    assert not [path for path in TABLES if "Signal." not in (ROOT / path).read_text()]


@pytest.mark.parametrize("kind", [SignalSpec, SignalFacts])
def test_no_field_has_a_default(kind: type) -> None:
    optional = [f.name for f in fields(kind) if f.default is not MISSING or f.default_factory is not MISSING]
    assert not optional, "a signal that lacks a field must not load"


def test_every_signal_has_a_row() -> None:
    assert set(SIGNALS) == set(FACTS) == set(Signal)
    assert all(spec.dataset == FACTS[signal].dataset for signal, spec in SIGNALS.items())


def test_offences_are_found() -> None:
    keyed = "KINDS = {Signal.LOGS: 1, Signal.TRACES: 2}\n"
    compared = "if signal is Signal.LOGS or name == Signal.METRICS.value or s in {Signal.TRACES}: pass\n"
    matched = "match signal:\n    case Signal.LOGS: pass\n"
    assert offences(keyed) == ["1: a dictionary by signal"]
    assert offences(compared) == ["1: a comparison with a signal"] * 3
    assert offences(matched) == ["2: a case of a signal"]
    assert offences("view = index.tier_view(org, Signal.METRICS)\nrow = {Signal.LOGS: 1}\n") == []
