"""Alert templates give the texts and errors of Prometheus' own test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakerunner_query.gotext.values import Int64, Labels
from lakerunner_query.rules.templates import TemplateFailure, render
from lakerunner_query.rules.templates_functions import (
    HistogramValue,
    QueryResult,
    TemplateContext,
    TemplateSample,
)
from tests.support.corpora import CORPORA

VECTORS = CORPORA / "rules" / "template_vectors.json"
NOW_NS = 1_353_755_652_000 * 10**6
CASES = json.loads(VECTORS.read_text())["cases"] if VECTORS.exists() else []
OF_ALERTS = [case for case in CASES if not case.get("html") and not case.get("options")]
"""The others are pages of consoles and options of a template, which alerts do not have."""

pytestmark = pytest.mark.skipif(not CASES, reason="needs the rules corpus beside the project")


def dot_of(case: dict[str, Any]) -> Any:
    text = case.get("input", "")
    if text.startswith("*template.sample"):
        shown = text.removeprefix("*template.sample &{map[] ").removesuffix("}")
        return TemplateSample(Labels(), HistogramValue(shown))
    if text.startswith("[]float64 ["):
        return [float(word) for word in text.removeprefix("[]float64 [").removesuffix("]").split()]
    if text.startswith(("[]int64", "[]uint64")):
        return [Int64(number) for number in case["input_json"]]
    return case.get("input_json")


def result_of(case: dict[str, Any]) -> QueryResult:
    return QueryResult(
        TemplateSample(Labels(row["labels"]), float(row["v"])) for row in case.get("query_result") or ()
    )


def outcome(case: dict[str, Any]) -> dict[str, str]:
    context = TemplateContext("", 0, NOW_NS, "http://testhost:9090/path/prefix", lambda _: result_of(case))
    try:
        return {"output": render("test", case["text"], dot_of(case), context)}
    except TemplateFailure as error:
        return {"error": str(error)}


def test_most_vectors_are_those_of_alerts() -> None:
    assert len(CASES) == 70
    assert len(OF_ALERTS) == 63


@pytest.mark.parametrize("case", OF_ALERTS, ids=lambda case: case["text"][:60])
def test_as_prometheus(case: dict[str, Any]) -> None:
    assert outcome(case) == {key: case[key] for key in ("output", "error") if key in case}
