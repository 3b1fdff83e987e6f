"""Templates of our own with what a real Loki 3.7 made of them: texts, errors and refusals, word by word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakerunner_query.errors import TemplateSyntaxError
from lakerunner_query.logql.frame import Category, Column, LogFrame
from lakerunner_query.logql.templates.chains import compile_template
from lakerunner_query.logql.templates.columns import render

RECORDED = json.loads((Path(__file__).parent / "cases" / "logql_templates.json").read_text())


def made(template: str) -> dict[str, str]:
    columns = {
        name: Column(np.zeros(1, np.int32), pa.array([text]), Category.METADATA)
        for name, text in RECORDED["labels"].items()
    }
    frame = LogFrame(np.array([RECORDED["ns"]], np.int64), pa.array([RECORDED["line"]]), columns)
    try:
        found = render(compile_template(template), frame, RECORDED["ns"])
    except TemplateSyntaxError as error:
        return {"refused": error.message}
    return {"error": found.messages[0]} if found.failed else {"text": found.texts[0].as_py()}


def test_there_are_cases_of_every_kind() -> None:
    assert {kind for case in RECORDED["cases"] for kind in case} == {"template", "text", "error", "refused"}


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["template"][:60])
def test_as_loki(case: dict[str, Any]) -> None:
    assert {"template": case["template"], **made(case["template"])} == case
