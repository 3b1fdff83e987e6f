"""Random rule files and unit tests of rules: what people write, and what they get wrong.

    files = RuleFiles(seed=1, number=7)
    files.rule_files()      [("rules-0.yml", {"groups": [...]}), ...]
    files.unit_tests(...)   {"rule_files": [...], "tests": [...]}

Expressions come from a small grammar of what rules do (chains, absence, joins), some from the grammar of
random queries. Input is written in the notation of series: gaps, stale markers, odd numbers, histograms.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from benchmarks.promql.fuzz_queries import Grammar
from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.durations import text as duration
from lakerunner_query.promql.lang.cursor import STABLE_FEATURES
from lakerunner_query.promql.lang.parser import parse

Document = dict[str, Any]
Value = TypeVar("Value")
JOBS, INSTANCES = ("api", "db"), ("a:1", "b:1")
COUNTERS, GAUGES, HISTOGRAMS = ("requests_total", "errors_total"), ("temp", "level", "up"), ("size", "nhcb")
OVER_TIME = ("avg", "max", "min", "sum", "count", "last", "stddev")
RANGES = ("1m", "2m", "5m", "10m")
ANNOTATIONS = (
    "plain", "{{ $value }}", "{{ $labels.job }} on {{ $labels.instance }}", "{{ $value | humanize }}",
    "{{ $value | humanize1024 }}", "{{ $value | humanizePercentage }}", "{{ $value | humanizeDuration }}",
    '{{ printf "%.3f" $value }}', "{{ .Value }} {{ .Labels.job }}", "{{ $externalLabels.region }}",
    "{{ $externalURL }}", "{{ $labels.nothing }}|", "{{ if gt $value 3.0 }}high{{ else }}low{{ end }}",
    '{{ with query "sum(up)" }}{{ . | first | value }}{{ end }}',
    '{{ range query "sum by (job) (up)" | sortByLabel "job" }}{{ .Labels.job }}={{ .Value }} {{ end }}',
    '{{ range $i, $x := query "sum(temp)" }}{{ $i }}:{{ $x | value }} {{ $x }};{{ end }}',
    '{{ reReplaceAll "(.*):(.*)" "$2-$1" $labels.instance }}', "{{ $labels.job | title | toUpper }}",
    '{{ graphLink "up" }} {{ tableLink "a b" }}', "{{ $labels.job | humanize }}", "{{ . }}",
    '{{ query "sum(up)" | first }}', '{{ printf "%v" (query "count(up)" | first) }}',
    '{{ query "nothing" | first | value }}', '{{ match "a.*" $labels.job }}', "{{ $labels }}",
    '{{ query "up +" }}', "{{ len $labels }}", '{{ define "x" }}[{{ . }}]{{ end }}{{ template "x" $value }}',
    "{{ $value | humanizeTimestamp }}", '{{ stripPort $labels.instance }} {{ args 1 2 }}', "ü <b> & \"q\"",
    '{{ parseDuration "1h30m" }}', "{{ .ExternalURL }}", "{{ $value | toTime }}",
)  # fmt: skip
_IS_LOOSE = re.compile(r"topk|bottomk|\ba?(?:sin|cos|tan)h?\(|atan2|\bexp\(|\^")
WRONG_TEMPLATES = ("{{ $labels.job", "{{ nofunction }}", "{{ end }}", "{{ $unknown }}", "{{ 1 | }}")
WRONG_EXPRESSIONS = (
    "sum by", "up{", "rate(up)", "up[5m]", "1 +", '"text"', "foo(up)", "up == up[1m]",
    "sum(up) by job by x", "",
    "up offset", "topk(up)", "up and 1", 'up{job=~"("}', "avg_over_time(up)", "{}", '{x=""}',
)  # fmt: skip


class RuleFiles:
    """One file of unit tests, with the rule files that it names."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(f"{seed}/{number}")
        self.grammar = Grammar(seed * 1_000_003 + number)
        self.recorded: list[str] = []
        self.alerts: list[str] = []
        self.groups: list[str] = []

    # --- choices -----------------------------------------------------------------------------------

    def one(self, values: Sequence[Value]) -> Value:
        return self.rng.choice(values)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # --- rules -------------------------------------------------------------------------------------

    def rule_files(self) -> list[tuple[str, Document]]:
        """Return one or two files whose groups read each other's metrics."""
        return [
            (f"rules-{number}.yml", {"groups": [self._group() for _ in range(self.rng.randint(1, 2))]})
            for number in range(1 if self.chance(0.7) else 2)
        ]

    def _group(self) -> Document:
        name = f"group {len(self.groups)}"
        self.groups.append(name)
        group: Document = {"name": name}
        if self.chance(0.3):
            group["interval"] = self.one(("30s", "1m", "5m"))
        if self.chance(0.15):
            group["limit"] = self.rng.randint(1, 6)
        if self.chance(0.15):
            group["query_offset"] = self.one(("0s", "30s", "2m"))
        if self.chance(0.25):
            group["labels"] = {self.one(("team", "tier", "job")): self.one(("core", "", "{{ $value }}"))}
        group["rules"] = [self._rule() for _ in range(self.rng.randint(1, 4))]
        return group

    def _rule(self) -> Document:
        if self.chance(0.4):
            return self._recording()
        return self._alert()

    def _recording(self) -> Document:
        is_repeated = bool(self.recorded) and self.chance(0.1)
        name = self.one(self.recorded) if is_repeated else f"job:recorded{len(self.recorded)}"
        rule: Document = {"record": name, "expr": self.expression()}
        if self.chance(0.3):
            label, value = (
                self.one(("tier", "job", "instance", "weiß")),
                self.one(("x", "", "{{ $value }}", "ü")),
            )
            rule["labels"] = {label: value}
        self.recorded.append(name)
        return rule

    def _alert(self) -> Document:
        is_repeated = bool(self.alerts) and self.chance(0.15)
        name = self.one(self.alerts) if is_repeated else f"Alert{len(self.alerts)}"
        self.alerts.append(name)
        rule: Document = {"alert": name, "expr": self.condition()}
        if self.chance(0.6):
            rule["for"] = self.one(("0s", "1m", "2m", "3m", "90s"))
        if self.chance(0.4):
            rule["keep_firing_for"] = self.one(("1m", "2m", "5m", "100s"))
        if self.chance(0.5):
            labels = {"severity": self.one(("page", "{{ $value | humanize }}", "{{ $labels.job }}", ""))}
            if self.chance(0.15):
                labels[self.one(("job", "instance", "alertname"))] = self.one(("same", "", "{{ $value }}"))
            rule["labels"] = labels
        if self.chance(0.8):
            names = ("summary", "text", "a b")[: self.rng.randint(1, 3)]
            rule["annotations"] = {name: self.one(ANNOTATIONS) for name in names}
        return rule

    # --- expressions -------------------------------------------------------------------------------

    def name(self) -> str:
        if self.recorded and self.chance(0.35):
            return self.one(self.recorded)
        return self.one((*COUNTERS, *GAUGES, *GAUGES))

    def selector(self) -> str:
        matchers = ""
        if self.chance(0.3):
            label, value = self.one((("job", "api"), ("instance", "a:1"), ("job", ""), ("nothing", "x")))
            matchers = f'{{{label}{self.one(("=", "!=", "=~", "!~"))}"{value}"}}'
        shift = f" offset {self.one(('1m', '3m', '-1m'))}" if self.chance(0.08) else ""
        return self.name() + matchers + shift

    def condition(self) -> str:
        """Return an expression that is true at some times."""
        if self.chance(0.75):
            number = self.one(("0", "1", "2", "5", "10", "-1", "0.5"))
            return f"{self.expression()} {self.one(('>', '<', '==', '!=', '>=', '<='))} {number}"
        return self.expression()

    def expression(self) -> str:
        """Return what rules are made of."""
        if self.chance(0.15):
            return self._random()
        return self.one(self._forms())()

    def _random(self) -> str:
        """Return a random query that has one answer.

        promtool evaluates no experimental function, whatever its flags say; among equals it chooses by
        chance; and the last digit of an angle or a power is not Go's here.
        """
        while True:
            text = self.grammar.vector(2)
            if _IS_LOOSE.search(text):
                continue
            try:
                parse(text, STABLE_FEATURES)
            except QueryError:
                continue
            return text

    def _forms(self) -> Sequence[Callable[[], str]]:
        by = self.one(("by (job)", "by (instance)", "without (instance)", ""))
        sel, other, rng = self.selector, self.selector, lambda: self.one(RANGES)
        hist = self.one(HISTOGRAMS)
        return (
            sel,
            lambda: f"{self.one(('sum', 'avg', 'min', 'max', 'count', 'stddev', 'group'))} {by} ({sel()})",
            lambda: f"rate({self.one(COUNTERS)}[{rng()}])",
            lambda: f"sum {by} (increase({self.one(COUNTERS)}[{rng()}]))",
            lambda: f"{self.one(OVER_TIME)}_over_time({self.name()}[{rng()}])",
            lambda: f"{self.one(('changes', 'resets', 'delta', 'deriv', 'idelta'))}({self.name()}[{rng()}])",
            lambda: f"absent({sel()})",
            lambda: f"absent_over_time({self.name()}[{rng()}])",
            lambda: f"{sel()} {self.one(('and', 'or', 'unless'))} on (job) {other()}",
            lambda: (
                f"{sel()} {self.one(('+', '-', '*', '/', '%'))} on (job, instance) group_left () {other()}"
            ),
            lambda: f"{sel()} / ignoring (tier, severity) {other()}",
            lambda: f"max_over_time({self.name()}[{rng()}:{self.one(('', '30s', '1m'))}])",
            lambda: f'label_replace({sel()}, "copy", "$1-x", "job", "(.).*")',
            lambda: f"{self.one(('time()', 'vector(1)', 'minute()', 'scalar(up)'))}",
            lambda: f"quantile {by} (0.5, {sel()})",
            lambda: f"histogram_quantile(0.9, {hist})",
            lambda: f"{self.one(('histogram_count', 'histogram_sum', 'histogram_avg'))}({hist})",
            lambda: f"sum {by} (rate({hist}[{rng()}]))",
            lambda: f'ALERTS{{alertname=~"Alert.*",alertstate="{self.one(("firing", "pending"))}"}}',
            lambda: f"ALERTS_FOR_STATE - {self.one(('0', 'time()'))}",
            lambda: f'count_values {by} ("v", {sel()})',
            lambda: f"clamp_max({sel()}, 3) == bool 3",
            lambda: f"-{sel()}",
            lambda: f"timestamp({sel()})",
            lambda: f"predict_linear({self.name()}[{rng()}], 60)",
        )

    # --- input -------------------------------------------------------------------------------------

    def input_series(self) -> list[dict[str, str]]:
        found = []
        for name in (*COUNTERS, *GAUGES, *HISTOGRAMS):
            for job in JOBS:
                for instance in INSTANCES:
                    if self.chance(0.55):
                        series = f'{name}{{job="{job}", instance="{instance}"}}'
                        found.append({"series": series, "values": self._values(name)})
        return found

    def _values(self, name: str) -> str:
        make = self._histograms if name in HISTOGRAMS else self._numbers
        return " ".join(make(name) for _ in range(self.rng.randint(1, 5)))

    def _numbers(self, name: str) -> str:
        number, times = self.one(("0", "1", "3", "7.5", "100")), self.rng.randint(1, 9)
        if self.chance(0.25):
            return self.one(("_", f"_x{times}", "stale", "NaN", "Inf", "-Inf", "1e3", ".5", "-0", "+2"))
        if name in COUNTERS:
            return f"{number}+{self.one(('1', '2.5', '0.1', '60'))}x{times}"
        return self.one(
            (f"{number}x{times}", f"{number}-1x{times}", f"-{number}+0.1x{times}", number, f"{number}+2x0")
        )

    def _histograms(self, name: str) -> str:
        if self.chance(0.15):
            return self.one(("_", "_x3", "stale"))
        base = (
            "schema:-53 sum:{} count:{} custom_values:[1 5 10] buckets:[{} 1 1]"
            if name == "nhcb"
            else "schema:1 sum:{} count:{} z_bucket:1 z_bucket_w:0.001 buckets:[{} 1 0 1] n_buckets:[1]"
        )
        extra = 2 if name == "nhcb" else 4
        first, times = self.rng.randint(0, 5), self.rng.randint(1, 8)
        hint = self.one(("", "", "", " counter_reset_hint:gauge", " counter_reset_hint:reset"))
        start = base.format(first * 2 + 3, first + extra, first) + hint
        if self.chance(0.7):
            return f"{{{{{start}}}}}+{{{{{base.format(5, 2 + extra, 2)}}}}}x{times}"
        return f"{{{{{start}}}}}x{times}"

    # --- unit tests --------------------------------------------------------------------------------

    def unit_tests(self, names: Sequence[str]) -> Document:
        """Return tests whose expectations are empty."""
        step = self.one((30_000, 60_000, 60_000, 77_000, 120_000))
        document: Document = {"rule_files": list(names), "evaluation_interval": duration(step)}
        if len(self.groups) > 1:
            order = list(self.groups)
            if self.chance(0.3):
                self.rng.shuffle(order)
            document["group_eval_order"] = order
        if self.chance(0.2):
            document["fuzzy_compare"] = True
        document["tests"] = [self._test(number, step) for number in range(self.rng.randint(1, 3))]
        return document

    def _test(self, number: int, step: int) -> Document:
        test: Document = {"name": f"test {number}"}
        if self.chance(0.6):
            test["interval"] = duration(self.one((step, 60_000, 15_000, 30_000)))
        if self.chance(0.2):
            test["start_timestamp"] = self.one(("2026-01-01T00:00:00Z", "1700000000", "1700000000.5"))
        if self.chance(0.3):
            test["external_labels"] = {"region": self.one(("eu", "us"))}
        if self.chance(0.2):
            test["external_url"] = "http://lake:9090"
        test["input_series"] = self.input_series()
        pairs = {(alert, self._time(step)) for alert in sorted(set(self.alerts)) for _ in range(2)}
        test["alert_rule_test"] = [
            {"eval_time": duration(at), "alertname": alert, "exp_alerts": []} for alert, at in sorted(pairs)
        ]
        asked = {
            (self.one((*self.recorded, self.expression(), self.condition(), "ALERTS")), self._time(step))
            for _ in range(4)
        }
        test["promql_expr_test"] = [
            {"expr": expr, "eval_time": duration(at), "exp_samples": []} for expr, at in sorted(asked)
        ]
        return test

    def _time(self, step: int) -> int:
        at = self.rng.randint(0, 14) * step
        return at + self.one((0, 0, 0, 1_000, 29_000)) if at else at

    # --- faults ------------------------------------------------------------------------------------

    def spoil_rules(self, document: Document) -> str:
        """Put one fault into a rule file; return its name."""
        groups = document["groups"]
        group = self.one(groups)
        rule = self.one(group["rules"])
        name, spoil = self.one(list(_rule_faults(self, document, group, rule).items()))
        spoil()
        return name

    def spoil_tests(self, document: Document) -> str:
        """Put one fault into a file of unit tests; return its name."""
        test = self.one(document["tests"])
        name, spoil = self.one(list(_test_faults(self, document, test).items()))
        spoil()
        return name


def _rule_faults(
    files: RuleFiles, document: Document, group: Document, rule: Document
) -> Mapping[str, Callable[[], object]]:
    kind = "alert" if "alert" in rule else "record"
    labels = dict(rule.get("labels", {}))
    return {
        "expression": lambda: rule.update(expr=files.one(WRONG_EXPRESSIONS)),
        "template": lambda: rule.update(annotations={"x": files.one(WRONG_TEMPLATES)}),
        "label template": lambda: rule.update(labels={"x": files.one(WRONG_TEMPLATES)}),
        "no name": lambda: rule.pop(kind),
        "two names": lambda: rule.update(alert="A", record="r"),
        "no expression": lambda: rule.pop("expr"),
        "unknown key of a rule": lambda: rule.update(severity="page"),
        "unknown key of a group": lambda: group.update(evaluation="1m"),
        "for": lambda: rule.update({"for": files.one(("1.5m", "-1m", "soon", "1", "", "5m", 300))}),
        "keep_firing_for": lambda: rule.update(keep_firing_for=files.one(("x", "1h", "0", 0))),
        "interval": lambda: group.update(interval=files.one(("1.5m", "x", "0s", "0", "1h30m"))),
        "limit": lambda: group.update(limit=files.one(("many", -1, 1.5, "3"))),
        "label name": lambda: rule.update(labels={**labels, files.one(("__name__", "", "a-b", "ü")): "x"}),
        "annotation name": lambda: rule.update(annotations={files.one(("", "a-b", "__name__")): "x"}),
        "record name": lambda: rule.update(record=files.one(("a-b", "a{b}", "", "1x", "ü"))) or None,
        "group without a name": lambda: group.update(name=""),
        "repeated group": lambda: document["groups"].append(dict(group)),
        "no rules": lambda: group.pop("rules"),
        "empty rules": lambda: group.update(rules=[]),
        "labels that are no text": lambda: rule.update(labels={"x": files.one((1, True, None, [1], 1.5))}),
        "expression that is a number": lambda: rule.update(expr=files.one((1, 1.5, True))),
        "groups that are a mapping": lambda: document.update(groups={"name": "x"}),
        "unknown key": lambda: document.update(rules=[]),
        "repeated rule": lambda: group["rules"].append(dict(rule)),
        "group labels": lambda: group.update(labels={files.one(("__name__", "x")): "y"}),
    }


def _test_faults(files: RuleFiles, document: Document, test: Document) -> Mapping[str, Callable[[], object]]:
    alert = {"eval_time": "1m", "exp_alerts": []}
    sample = {"expr": "up", "eval_time": "1m"}
    return {
        "no alertname": lambda: test["alert_rule_test"].append(alert),
        "series": lambda: test["input_series"].append(
            {"series": files.one(("up{", "up{a=b}", "", "up", "{}", 'up{a="b"', "rate(up)")), "values": "1 2"}
        ),
        "values": lambda: test["input_series"].append(
            {
                "series": "up",
                "values": files.one(
                    (
                        "1+x3",
                        "1x",
                        "a b",
                        "{{schema:1",
                        "{{foo:1}}",
                        "_x",
                        "1,2",
                        "stalex2",
                        "1+1x-2",
                        "0x8",
                        "1_",
                    )
                ),
            }
        ),
        "unknown key": lambda: document.update(test=[]),
        "unknown key of a test": lambda: test.update(intervall="1m"),
        "eval_time": lambda: test["alert_rule_test"].append({**alert, "alertname": "A", "eval_time": "x"}),
        "interval": lambda: test.update(interval=files.one(("1.5m", "x", "-1m"))),
        "start": lambda: test.update(start_timestamp=files.one(("soon", "2026-01-01", "1e3", "-5"))),
        "order": lambda: document.update(group_eval_order=["a", "a"]),
        "labels of samples": lambda: test["promql_expr_test"].append(
            {**sample, "exp_samples": [{"labels": files.one(("up{", "1", "sum(up)", "{a=b}")), "value": 1}]}
        ),
        "values of samples": lambda: test["promql_expr_test"].append(
            {**sample, "exp_samples": [{"labels": "up", "value": files.one(("x", "1", ".nan"))}]}
        ),
        "histograms of samples": lambda: test["promql_expr_test"].append(
            {
                **sample,
                "exp_samples": [
                    {"labels": "up", "histogram": files.one(("1", "{{count:1}} {{count:2}}", "x", "{{}}"))}
                ],
            }
        ),
        "expression": lambda: test["promql_expr_test"].append(
            {**sample, "expr": files.one(WRONG_EXPRESSIONS)}
        ),
        "rule file that is not there": lambda: document.update(rule_files=["nothing.yml"]),
        "no tests": lambda: document.pop("tests"),
        "fuzzy": lambda: document.update(fuzzy_compare=files.one(("perhaps", "yes", 1))),
        "repeated series": lambda: test["input_series"].append(
            {"series": 'up{instance="a:1",job="db"}', "values": "5 4x5"}
        ),
        "series of a recorded metric": lambda: test["input_series"].append(
            {"series": files.one(("job:recorded0", 'job:recorded0{job="db"}')), "values": "1x20"}
        ),
    }
