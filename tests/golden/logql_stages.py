"""Pipeline stages, one line at a time: python -m tests.golden.logql_stages [PATH] [--verbose]

PATH is a JSON file of sections, each a list of cases of one kind of stage: a line and labels, and what they
become. Every section is run by the function in `SECTIONS` of its name. The last line is `passed N/M`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakerunner_query.errors import ParseError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import Category, Column, LogFrame
from lakerunner_query.logql.lang.ast import (
    CompareOp,
    Decolorize,
    Drop,
    Extraction,
    FilterOp,
    Json,
    Keep,
    LabelCompare,
    LabelFilter,
    LabelIp,
    LabelMatch,
    LineFilter,
    Logfmt,
    Pattern,
    Regexp,
    Stage,
    Unit,
    Unpack,
)
from lakerunner_query.logql.pipeline import Demand
from lakerunner_query.logql.stages.extract import label_name
from lakerunner_query.logql.stages.pattern_regexp import filter_pattern
from lakerunner_query.syntax import START, Matcher, MatchOp
from tests.golden import logql_stage_templates
from tests.support.corpora import CORPORA

DEFAULT = CORPORA / "parse" / "logql_stage_vectors.json"
Case = Any
Labels = dict[str, str]
MATCH_OPS = {
    "labels.MatchEqual": MatchOp.EQUAL,
    "labels.MatchNotEqual": MatchOp.NOT_EQUAL,
    "labels.MatchRegexp": MatchOp.REGEX,
    "labels.MatchNotRegexp": MatchOp.NOT_REGEX,
}
SPECIAL = {"logqlmodel.ErrorLabel": "__error__", "logqlmodel.PreserveErrorLabel": "__preserve_error__"}
LINES = ("foo", "foobar", "bar", "foobuzz", "buzz", "f", "  ", "fba", "foofoofoo", "b", "foob", "bfoo", "FoO",
         "foo, 世界", "fooÏbar", "foo12bar99", "x1")  # fmt: skip


def run(
    line: str | None, labels: Labels | None, *stages: Stage, metadata: Labels | None = None
) -> tuple[str, Labels] | None:
    """The line and its labels behind the stages, None if they drop it."""
    frame = frame_of([line or ""], labels, metadata)
    frame = pipeline.apply(frame, stages, Demand(None), 0)
    if not frame.count:
        return None
    found = {name: (column, column.codes[0]) for name, column in frame.labels.items() if column.codes[0] >= 0}
    return frame.line[0].as_py(), {
        name: column.values[code].as_py() for name, (column, code) in found.items()
    }


def frame_of(lines: list[str], labels: Labels | None = None, metadata: Labels | None = None) -> LogFrame:
    columns = {}
    for category, texts in ((Category.STREAM, labels), (Category.METADATA, metadata)):
        for name, text in (texts or {}).items():
            codes = np.zeros(len(lines), np.int32)
            columns[special(name)] = Column(codes, pa.array([text], pa.string()), category)
    times = np.arange(len(lines), dtype=np.int64)
    return LogFrame(times, pa.array(lines, pa.string()), columns)


def special(name: str) -> str:
    return SPECIAL[json.loads(name)["$id"]] if name.startswith('{"$id"') else name


def matcher_of(case: Case) -> Matcher:
    op, name, value = case["$labels.MustNewMatcher"]
    return Matcher(SPECIAL[name["$id"]] if isinstance(name, dict) else name, MATCH_OPS[op["$id"]], value)


def extractions(case: Case) -> tuple[Extraction, ...]:
    pairs = [one["$NewLabelExtractionExpr"] for one in case["expressions"]]
    return tuple(Extraction(name, text, path_of(text)) for name, text in pairs)


def path_of(text: str) -> tuple[str | int, ...]:
    """Dotted keys only: what the cases with lines use."""
    return tuple(text.split("."))


def parsed(case: Case, stage: Stage, expected: Labels, key: str = "lbs") -> bool:
    found = run(case["line"], case[key], stage, metadata=case.get("structuredMetadata"))
    return found is not None and found[1] == expected


def json_stage(case: Case) -> bool:
    return parsed(case, Json(), case["want"])


def json_extraction(case: Case) -> bool:
    return parsed(case, Json(extractions(case)), case["want"])


def regexp_is_refused(case: Case) -> bool:
    try:
        run("x", None, Regexp(case["re"]))
    except ParseError:
        return bool(case["wantErr"])
    return not case["wantErr"]


def logfmt_stage(case: Case) -> bool:
    strict = case["wantStrict"] or case["want"]
    return parsed(case, Logfmt(), case["want"]) and parsed(case, Logfmt(strict=True), strict)


def logfmt_empty(case: Case) -> bool:
    return parsed(case, Logfmt(keep_empty=case["keepEmpty"]), case["want"])


def unpack_stage(case: Case) -> bool:
    found = run(case["line"], case["lbs"], Unpack(), metadata=case["structuredMetadata"])
    return found == (case["wantLine"], case["wantLbs"])


def pattern_stage(case: Case) -> bool:
    return parsed(case, Pattern(case["pattern"]), case["want"])


def decolorize(case: Case) -> bool:
    return run(case["src"], None, Decolorize()) == (case["expected"], {})


def drop_labels(case: Case) -> bool:
    return run("", case["lbs"], Drop(items(case["dropLabels"]))) == ("", named(case["want"]))


def keep_labels(case: Case) -> bool:
    return run("", case["lbs"], Keep(items(case["keepLabels"]))) == ("", named(case["want"]))


def items(cases: list[Case]) -> tuple[str | Matcher, ...]:
    return tuple(matcher_of(matcher) if matcher else name for matcher, name in cases)


def named(labels: Labels) -> Labels:
    return {special(name): text for name, text in labels.items()}


def ip_lines(case: Case) -> bool:
    stage = LineFilter(FilterOp.CONTAINS, (), (case["pat"],))
    frame = pipeline.apply(frame_of(case["input"]), [stage], Demand(None), 0)
    return bool(frame.tsns.tolist() == case["expected"])


def ip_label(case: Case) -> bool:
    condition = LabelIp(case["label"], "NotEqual" in case["ty"]["$id"], case["pat"])
    found = run("", {case["label"]: case["val"]}, LabelFilter(condition))
    return (found is not None) == case["expectedMatch"]


def ip_line(case: Case) -> bool:
    op = FilterOp.NOT_CONTAINS if "NotEqual" in case["ty"]["$id"] else FilterOp.CONTAINS
    return (run(case["line"], None, LineFilter(op, (), (case["pat"],))) is not None) == case["expectedMatch"]


def number(case: Case) -> float:
    return number(case["l"]) * number(case["r"]) if isinstance(case, dict) else float(case)


def bytes_filter(case: Case) -> bool:
    condition = LabelCompare("bar", CompareOp.EQUAL, number(case["expectedBytes"]), Unit.BYTES)
    found = run("", {"bar": case["label"]}, LabelFilter(condition))
    return (found == ("", {"bar": case["wantLabel"]})) == case["want"]


def error_filter(case: Case) -> bool:
    labels = case["lbs"] | ({"__error__": case["err"]} if case["err"] else {})
    matcher = matcher_of(case["f"]["$NewStringLabelFilter"][0])
    found = run("", labels, LabelFilter(LabelMatch(matcher)))
    return found == ("", named(case["wantLbs"])) if case["want"] else found is None


def string_filter(case: Case) -> bool:
    matcher = matcher_of(case["filter"]["$NewStringLabelFilter"][0])
    return (run("", case["labels"], LabelFilter(LabelMatch(matcher))) is not None) == case["shouldMatch"]


def regex_lines(case: Case) -> bool:
    """Of the case only the pattern is of use: it must choose the lines that a second engine chooses."""
    pattern = re.sub(r"(.+)\(\?i\)(.+)", r"\1(?i:\2)", case["re"])
    for op in (FilterOp.REGEX, FilterOp.NOT_REGEX):
        frame = pipeline.apply(frame_of(list(LINES)), [LineFilter(op, (case["re"],))], Demand(None), 0)
        chosen = [
            n
            for n, line in enumerate(LINES)
            if any(re.search(one, line) for one in pattern.split("|")) != op.is_negative
        ]
        if frame.tsns.tolist() != chosen:
            return False
    return True


def extraction_path(language: str) -> Callable[[Case], bool]:
    def checked(case: Case) -> bool:
        from lakerunner_query.logql.lang.parser import parse

        text = f'{{a="b"}} | {language} x={json.dumps(case["expression"], ensure_ascii=False)}'
        try:
            (stage,) = parse(text).stages
        except ParseError:
            return case["want"] is None
        assert isinstance(stage, Json | Logfmt)
        return list(stage.extractions[0].path) == case["want"]

    return checked


def pattern_captures(case: Case) -> bool:
    """Captures are compared by order; as a filter the pattern may have no names."""
    unnamed = re.sub(r"<\w+>", "<_>", case["expr"])
    matched = run(case["in"], None, LineFilter(FilterOp.PATTERN, (unnamed,))) is not None
    names = [name for name in re.findall(r"<(\w+)>", case["expr"]) if name != "_"]
    found = run(case["in"], None, Pattern(case["expr"]))
    assert found is not None
    wanted = dict(zip(names, case["expected"], strict=False))
    return matched == case["matches"] and found[1] == wanted


def pattern_text(case: Case) -> bool:
    filter_pattern(case["name"], START)
    return case["err"] is None


def pattern_literals(case: Case) -> bool:
    pattern = filter_pattern(re.sub(r"<\w+>", "<_>", case["pattern"]), START)
    text, offsets = pattern.literals.tobytes(), pattern.literal_offsets.tolist()
    found = [text[begin:end].decode() for begin, end in pairwise(offsets)]
    return bool(found == case["lit"])


def label_key(case: Case) -> bool:
    return label_name(case["key"]) == case["want"]


SECTIONS: dict[str, Callable[[Case], bool]] = {
    **logql_stage_templates.SECTIONS,
    "parser_test.go:Test_jsonParser_Parse": json_stage,
    "parser_test.go:TestJSONExpressionParser": json_extraction,
    "parser_test.go:TestNewRegexpParser": regexp_is_refused,
    "parser_test.go:TestLogfmtParser_parse": logfmt_stage,
    "parser_test.go:TestLogfmtParser_keepEmpty": logfmt_empty,
    "parser_test.go:Test_unpackParser_Parse": unpack_stage,
    "parser_test.go:Test_PatternParser": pattern_stage,
    "fmt_test.go:TestDecolorizer": decolorize,
    "drop_labels_test.go:Test_DropLabels": drop_labels,
    "keep_labels_test.go:Test_KeepLabels": keep_labels,
    "ip_test.go:Test_IPFilter": ip_lines,
    "ip_test.go:Test_IPLabelFilterTy": ip_label,
    "ip_test.go:Test_IPLineFilterTy": ip_line,
    "label_filter_test.go:TestBytes_Filter": bytes_filter,
    "label_filter_test.go:TestErrorFiltering": error_filter,
    "label_filter_test.go:TestStringLabelFilter": string_filter,
    "filter_test.go:Test_SimplifiedRegex": regex_lines,
    "jsonexpr__jsonexpr_test.go:TestJSONExpressionParser": extraction_path("json"),
    "logfmt__logfmtexpr_test.go:TestLogfmtExpressionParser": extraction_path("logfmt"),
    "pattern__pattern_test.go:fixtures": pattern_captures,
    "pattern__pattern_test.go:Test_ParseLineFilter": pattern_text,
    "pattern__pattern_test.go:Test_ParseLiterals": pattern_literals,
    "util_test.go:Test_sanitizeLabelKey": label_key,
}


def problem(check: Callable[[Case], bool], case: Case) -> str | None:
    try:
        return None if check(case) else "differs"
    except Exception as error:  # noqa: BLE001 - a case that breaks has failed, the others go on
        return f"{type(error).__name__}: {error}"


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("path", nargs="?", type=Path, default=DEFAULT)
    options.add_argument("--verbose", action="store_true", help="show each case that fails")
    chosen = options.parse_args(arguments)
    passed = total = 0
    for name, cases in json.loads(chosen.path.read_text()).items():
        check = SECTIONS.get(name)
        problems = [(case, problem(check, case) if check else "no such section here") for case in cases]
        good = sum(found is None for _, found in problems)
        print(f"{name}: {good}/{len(cases)}")
        for case, found in problems:
            if found and chosen.verbose:
                print(f"  {found}: {json.dumps(case, ensure_ascii=False)[:400]}")
        passed, total = passed + good, total + len(cases)
    print(f"passed {passed}/{total}")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
