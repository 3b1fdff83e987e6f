"""Rule files that load and those that do not: python -m tests.golden.rules_load [DIR]

Verdicts are those of a real promtool, and of Loki. Three sorts of cases: texts of `accept_reject.json`
(verdict, number of rules, messages), rule files of other
projects (verdict, number of groups and rules, messages), and files of Loki (the same, and its own printing of
each expression). The last line is `passed N/M`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.promql.lang.cursor import STABLE_FEATURES
from lakerunner_query.rules.checks import lint
from lakerunner_query.rules.documents import AlertRule, RuleLanguage
from lakerunner_query.rules.rule_files import FileForm, RuleFile, read_file
from tests.support.corpora import CORPORA

DEFAULT = CORPORA / "rules"
PROMETHEUS = FileForm(is_strict=True, features=STABLE_FEATURES)
LOKI = FileForm(RuleLanguage.LOGQL, is_strict=True)
_PLACE = re.compile(r"^(?:[^: ]+\.ya?ml: )?(?:yaml: )?(?:\s*line \d+: |group \d+: |\d+:\d+: )*")
_NOT_OURS = re.compile(
    r"unmarshal errors:$|into rulefmt\.ruleGroups$|^lint error|^Metric: |^Label\(s\):|^Might"
)
"""Heads of lists, second errors of the same fault, and the layout of promtool's lint."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    text: bytes
    form: FileForm
    passes: bool
    counts: dict[str, int]
    messages: tuple[str, ...]
    expressions: tuple[str, ...] = ()


def cases(folder: Path) -> Iterator[Case]:
    for one in json.loads((folder / "accept_reject.json").read_text())["cases"]:
        counts = {"rules": one["rules"]} if "rules" in one else {}
        yield Case(
            f"text/{one['name']}", one["yaml"].encode(), PROMETHEUS, one["verdict"] == "pass", counts,
            tuple(one.get("messages") or ()),
        )  # fmt: skip
    verdicts = json.loads((folder / "verdicts.json").read_text())
    for kind, form in (("rules", PROMETHEUS), ("loki", LOKI)):
        for one in verdicts[kind]:
            names = ("groups", "rules", "alerts", "recordings", "duplicate_rules_lint")
            yield Case(
                one["file"], _content(folder / one["file"]), form, one["verdict"] == "pass",
                {name: one[name] for name in names if name in one},
                tuple(line for text in one.get("error", ()) for line in text.split("\n")),
                tuple(one.get("canonical_exprs", ())),
            )  # fmt: skip


def problem(case: Case) -> str:
    """Compare our verdict on a case with the expected one; an empty text if they agree."""
    found = read_file(case.text, case.form)
    shown = [fault.at("") for fault in found.faults]
    if case.passes != (not found.faults):
        return f"expected {'pass' if case.passes else 'fail'}, found {shown or 'pass'}"
    wanted = [_PLACE.sub("", text).strip() for text in case.messages if not _NOT_OURS.search(text)]
    if not case.passes:
        lost = [text for text in wanted if not any(text in one for one in shown)]
        return f"no message {lost} in {shown}" if lost else ""
    counts = _counts(found)
    if different := {name: counts[name] for name, wanted in case.counts.items() if counts[name] != wanted}:
        return f"expected {case.counts}, found {different}"
    if case.expressions:
        printed = [print_query(parse_expr(rule.expr)) for _, group in found.groups for rule in group.rules]
        return "" if printed == list(case.expressions) else f"printed {printed}"
    return ""


def _counts(found: RuleFile) -> dict[str, int]:
    rules = [rule for _, group in found.groups for rule in group.rules]
    alerts = sum(isinstance(rule, AlertRule) for rule in rules)
    duplicates = [one for one in lint(group for _, group in found.groups) if "duplicate" in one.message]
    return {
        "groups": len(found.groups),
        "rules": len(rules),
        "alerts": alerts,
        "recordings": len(rules) - alerts,
        "duplicate_rules_lint": len(duplicates),
    }


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    found = {case.name: problem(case) for case in cases(parser.parse_args().folder)}
    for name, why in found.items():
        if why:
            print(f"{name}: {why}")
    passed = sum(not why for why in found.values())
    print(f"passed {passed}/{len(found)}")
    return int(passed != len(found))


if __name__ == "__main__":
    sys.exit(main())
