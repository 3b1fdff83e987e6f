"""Random unit tests of rules and rule files, judged by promtool and by `lakerunner rules`.

    python -m benchmarks.random_rule_tests --files 300 --seed 1 --promtool PATH [--check 300] [--keep DIR]

Unit tests are first run with empty expectations; what was found becomes what is expected, here and there
changed. Then both judge the same files: exit codes must be equal, and so must the failures that both tell,
word by word but for errors. Rule files are judged by `check rules --lint-fatal`. A difference makes the exit
code 1.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.random_rule_files import Document, RuleFiles
from lakerunner_cli import rule_actions, rule_tests
from lakerunner_query.promql.series_notation import read_labels
from lakerunner_query.rules.unit_tests import run_file
from resources.settings import Settings

SPOILED, CHANGED, EMPTY = 0.15, 0.05, 0.02
"""Shares of files with a fault, and of expectations that are changed, or left empty."""
_ALERTS = re.compile(r"^ +Labels:(.*)\n +Annotations:(.*?),?$", re.MULTILINE)
_TIMES = re.compile(r" time: [^,]*, err: .*", re.DOTALL)
PROMTOOL_S = 60.0
FEATURES = "--enable-feature=promql-delayed-name-removal"
"""Names of metrics are dropped last here; experimental functions cannot be tested with promtool."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one tool for one file."""

    code: int
    text: str

    @property
    def failures(self) -> str:
        """Failed expectations, without errors, which have words of their own, and without empty lines."""
        blocks = re.split(r"\n(?=    (?:name|alertname|expr|rule): )", self.text)
        kept = [one.rstrip() for one in blocks if re.match(r"    (?:name|alertname|expr): ", one)]
        return "\n".join(re.sub(r"\n+", "\n", one) for one in kept if not _TIMES.search(one))


@dataclass(frozen=True, slots=True)
class Case:
    """One generated file: its path, and the fault that was put into it."""

    path: Path
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    case: Case
    reason: str
    promtool: Verdict
    ours: Verdict


def write_unit_tests(folder: Path, seed: int, number: int) -> Case:
    """Write a file of unit tests with its rule files."""
    files = RuleFiles(seed, number)
    folder.mkdir(parents=True, exist_ok=True)
    rules = files.rule_files()
    tests = files.unit_tests([name for name, _ in rules])
    path = folder / "test.yml"
    for name, document in rules:
        _write(folder / name, document)
    _write(path, tests)
    _expect(files, tests, path)
    fault = ""
    if files.chance(SPOILED):
        if files.chance(0.3):
            name, document = files.one(rules)
            fault = f"rules: {files.spoil_rules(document)}"
            _write(folder / name, document)
        else:
            fault = f"tests: {files.spoil_tests(tests)}"
    _write(path, tests)
    return Case(path, fault)


def write_rule_file(folder: Path, seed: int, number: int) -> Case:
    """Write a rule file, two of three with a fault."""
    files = RuleFiles(seed, number)
    folder.mkdir(parents=True, exist_ok=True)
    name, document = files.rule_files()[0]
    fault = files.spoil_rules(document) if files.chance(0.67) else ""
    _write(folder / name, document)
    return Case(folder / name, fault)


def _write(path: Path, document: Document) -> None:
    path.write_text(yaml.safe_dump(document, allow_unicode=True, sort_keys=False))


def _expect(files: RuleFiles, tests: Document, path: Path) -> None:
    """Fill expectations with what our own run finds."""
    found = {one.name: one.failures for one in run_file(path)}
    for test in tests["tests"]:
        failures = found.get(test["name"], ())
        for case in test["alert_rule_test"]:
            head = f"alertname: {case['alertname']}, time: {case['eval_time']}, "
            text = next((one for one in failures if head in one), "")
            alerts = _ALERTS.findall(text.partition("got:")[2])
            case["exp_alerts"] = [
                {"exp_labels": _without_name(labels), "exp_annotations": dict(read_labels(notes)[0])}
                for labels, notes in alerts
            ]
            _change(files, case["exp_alerts"])
        for case in test["promql_expr_test"]:
            tail = f", time: {case['eval_time']},\n"
            text = next((one for one in failures if tail in one and _asks(one, case["expr"])), "")
            case["exp_samples"] = list(_samples(text.partition("got: ")[2]))
            _change(files, case["exp_samples"])


def _asks(failure: str, expr: str) -> bool:
    shown: str = yaml.safe_load(failure.split("expr: ", 1)[1].split(", time:", 1)[0])
    return shown == expr


def _without_name(labels: str) -> dict[str, str]:
    return {name: value for name, value in read_labels(labels)[0] if name != "alertname"}


def _samples(text: str) -> Iterator[Document]:
    """Read samples as failures show them: labels, and a float or a histogram."""
    while text and text != "nil":
        _, rest = read_labels(text)
        labels = text[: len(text) - len(rest)]
        rest = rest.lstrip()
        if rest.startswith("{{"):
            histogram, _, text = rest.partition("}}")
            yield {"labels": labels, "histogram": histogram + "}}"}
            text = text.removeprefix(", ")
        else:
            number, _, text = rest.partition(", ")
            yield {"labels": labels, "value": float(number)}


def _change(files: RuleFiles, expected: list[Document]) -> None:
    if expected and files.chance(EMPTY):
        expected.clear()
    elif files.chance(CHANGED):
        if expected and files.chance(0.3):
            expected.append(dict(expected[0]))
        elif expected:
            one = files.one(expected)
            if "value" in one:
                one["value"] = files.one((one["value"] + 1, one["value"] * (1 + 2e-16), 0.0))
            elif "exp_labels" in one:
                files.one((one["exp_labels"], one["exp_annotations"]))["job"] = "changed"
            else:
                one["labels"] = '{job="changed"}'


def ask_promtool(promtool: Path, *arguments: str) -> Verdict:
    done = subprocess.run(
        [str(promtool), *arguments], capture_output=True, text=True, timeout=PROMTOOL_S, check=False
    )
    return Verdict(done.returncode, done.stdout + done.stderr)


def judge_tests(path: Path) -> Verdict:
    """Run `lakerunner rules test`."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        code = rule_tests.run(Namespace(files=[path], run=[], diff=False))
    return Verdict(code, shown.getvalue())


def judge_rules(path: Path) -> Verdict:
    """Run `lakerunner rules check --lint-fatal`."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        code = rule_actions.check(Namespace(files=[path], language="promql", lint_fatal=True), Settings())
    return Verdict(code, shown.getvalue())


def compare_tests(promtool: Path, case: Case) -> Difference | None:
    theirs, ours = ask_promtool(promtool, FEATURES, "test", "rules", str(case.path)), judge_tests(case.path)
    if theirs.code != ours.code:
        return Difference(case, "exit code", theirs, ours)
    if theirs.failures != ours.failures:
        return Difference(case, "failures", theirs, ours)
    return None


def compare_rules(promtool: Path, case: Case) -> Difference | None:
    theirs = ask_promtool(promtool, "check", "rules", "--lint-fatal", str(case.path))
    ours = judge_rules(case.path)
    if theirs.code == ours.code or _is_no_vector(theirs, ours):
        return None
    return Difference(case, "exit code", theirs, ours)


def _is_no_vector(theirs: Verdict, ours: Verdict) -> bool:
    """Tell our own warning, of expressions that yield no vector, from a difference."""
    return (ours.code, theirs.code) == (3, 0) and "every evaluation" in ours.text


def _tell(difference: Difference) -> None:
    case = difference.case
    print(f"DIFFERENT {difference.reason}: {case.path} {case.fault}")
    for name, verdict in (("promtool", difference.promtool), ("lakerunner", difference.ours)):
        print(f"  {name}: exit code {verdict.code}")
        shown = verdict.failures if difference.reason == "failures" else verdict.text
        print("\n".join(f"    {line}" for line in shown.splitlines()[:40]), flush=True)


def _run(options: argparse.Namespace, folder: Path) -> int:
    counts: Counter[str] = Counter()
    jobs = (
        ("test", options.files, write_unit_tests, compare_tests, judge_tests),
        ("check", options.check, write_rule_file, compare_rules, judge_rules),
    )
    for kind, count, write, compare, judge in jobs:
        for number in _numbers(options, count):
            case = write(folder / kind / f"{options.seed}-{number}", options.seed, number)
            difference = compare(options.promtool, case)
            counts[f"{kind} files"] += 1
            if difference is None:
                counts[f"{kind} code {judge(case.path).code}"] += 1
            else:
                counts["differences"] += 1
                _tell(difference)
    counts.setdefault("differences", 0)
    print(", ".join(f"{name} {counts[name]}" for name in sorted(counts)))
    return 1 if counts["differences"] else 0


def _numbers(options: argparse.Namespace, count: int) -> Sequence[int]:
    return [int(one) for one in options.only.split(",")] if options.only else range(count)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_rule_tests", description=__doc__)
    parser.add_argument("--files", type=int, default=300, help="files of unit tests")
    parser.add_argument("--check", type=int, default=300, help="rule files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="numbers of files, comma-separated")
    parser.add_argument(
        "--promtool", type=Path, default=Path.home() / ".cache/lakerunner/peers/promtool", help="version 3.15"
    )
    parser.add_argument("--keep", type=Path, help="write the files there, and leave them")
    options = parser.parse_args()
    if not options.promtool.is_file():
        parser.error(f"no promtool at {options.promtool}: benchmarks/README.md tells how it is built")
    if options.keep:
        return _run(options, options.keep)
    with tempfile.TemporaryDirectory(prefix="lakerunner-rules-") as folder:
        return _run(options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
