"""The sections of `logql_stages` that are about templates: lines, labels, and functions on texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lakerunner_query.errors import ParseError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import Category, Column, LogFrame, grouped_rows
from lakerunner_query.logql.lang.ast import Assign, LabelFormat, LineFormat, Rename, Stage
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.pipeline import Demand

Case = Any
NOW_NS = 1_700_000_000_000_000_000
LABELS_LINE, LABELS_NS = "test line", 1_661_518_453_000_000_000
"""What the cases of `label_format` are given beside their labels."""


def formatted(stage: Stage, labels: dict[str, str], line: str, ns: int) -> tuple[str, dict[str, str]]:
    columns = {
        name: Column(np.zeros(1, np.int32), pa.array([text]), Category.STREAM)
        for name, text in labels.items()
    }
    frame = LogFrame(np.array([ns], np.int64), pa.array([line], pa.string()), columns)
    frame = pipeline.apply(frame, [stage], Demand(None), NOW_NS)
    return frame.line[0].as_py(), dict(grouped_rows(frame)[1][0])


def line_formatter(case: Case) -> bool:
    (template,) = case["fmter"]["$newMustLineFormatter"]
    line, ns = case["in"] or "", case["ts"]
    wanted = case["want"] if isinstance(case["want"], str) else ("" if case["want"] == [] else line)
    return formatted(LineFormat(template), case["lbs"], line, ns) == (wanted, case["wantLbs"])


def label_formatter(case: Case) -> bool:
    (operations,) = case["fmter"]["$mustNewLabelsFormatter"]
    stage = LabelFormat(tuple(map(operation, operations)))
    return formatted(stage, case["in"], LABELS_LINE, LABELS_NS) == (LABELS_LINE, case["want"])


def operation(case: Case) -> Rename | Assign:
    if "$NewRenameLabelFmt" in case:
        return Rename(*case["$NewRenameLabelFmt"])
    return Assign(*case["$NewTemplateLabelFmt"])


def validated(case: Case) -> bool:
    pairs = [one["$NewRenameLabelFmt"] for one in case["fmts"]]
    names = [("__error__" if isinstance(name, dict) else name, source) for name, source in pairs]
    try:
        parse('{a="b"} | label_format ' + ",".join(f"{name}={source}" for name, source in names))
    except ParseError:
        return bool(case["wantErr"])
    return not case["wantErr"]


def function(template: str) -> Callable[[Case], bool]:
    """`{c}` and the like are the numbers of the case."""

    def check(case: Case) -> bool:
        numbers = {name: str(value) for name, value in case.items() if isinstance(value, int)}
        text = "{{" + template.format(**numbers) + " .s}}"
        return formatted(LineFormat(text), {"s": case["s"]}, "", 0)[0] == case["want"]

    return check


SECTIONS: dict[str, Callable[[Case], bool]] = {
    "fmt_test.go:Test_lineFormatter_Format": line_formatter,
    "fmt_test.go:Test_labelsFormatter_Format": label_formatter,
    "fmt_test.go:Test_validate": validated,
    "fmt_test.go:Test_trunc": function("trunc {c}"),
    "fmt_test.go:Test_AlignLeft": function("alignLeft {c}"),
    "fmt_test.go:Test_AlignRight": function("alignRight {c}"),
    "fmt_test.go:Test_substring": function("substr {start} {end}"),
}
