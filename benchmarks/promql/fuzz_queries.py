"""Random queries by a grammar: mostly well-typed, over names and labels that the data has.

topk by (job) (2, rate(requests_total{code=~"4.."}[90s] offset 1m) / ignoring (code) group_left errors_total)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.promql.fuzz_data import BASE_MS, FLOATS, HISTOGRAMS, INSTANCES, JOBS, LES, SPAN_MS

LABELS = ("job", "instance", "code", "zone", "le", "version", "region", "nothing")
RANGES = ("15s", "40s", "1m", "90s", "5m", "10m", "30m", "1h")
STEPS = ("10s", "30s", "1m", "77s", "5m")
NUMBERS = ("0", "1", "2", "-1", "0.5", "3", "100", "1e3", "NaN", "Inf", "-Inf", "0x1f", "1e-3")
MATH = (
    "abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg", "rad",
)  # fmt: skip
RANGED = (
    "rate", "increase", "delta", "irate", "idelta", "changes", "resets", "deriv", "avg_over_time",
    "min_over_time", "max_over_time", "sum_over_time", "count_over_time", "stddev_over_time",
    "stdvar_over_time", "last_over_time", "present_over_time", "first_over_time", "mad_over_time",
    "ts_of_min_over_time", "ts_of_max_over_time", "ts_of_last_over_time", "ts_of_first_over_time",
    "absent_over_time",
)  # fmt: skip
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar")
ARITHMETIC, COMPARISONS, SETS = ("+", "-", "*", "/", "%", "^", "atan2"), ("==", "!=", ">", "<", ">=", "<="), (
    "and", "or", "unless",
)  # fmt: skip
HISTOGRAM_PARTS = (
    "histogram_count", "histogram_sum", "histogram_avg", "histogram_stddev", "histogram_stdvar",
)  # fmt: skip
TIMES = ("hour", "minute", "day_of_week", "day_of_month", "day_of_year", "days_in_month", "month", "year")


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    start_ms: int
    end_ms: int
    step_ms: int = 0
    """0: at `end_ms` alone."""


class Grammar:
    """One stream of random queries."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 2])

    def question(self) -> Question:
        text = self.any(int(self.rng.integers(1, 5)))
        first = BASE_MS + int(self.rng.integers(-200, SPAN_MS // 1000 + 200)) * 1000
        if self.chance(0.4):
            return Question(text, first, first)
        step = int(self.one((10, 15, 30, 60, 77, 300, 600))) * 1000
        return Question(text, first, first + step * int(self.rng.integers(1, 50)), step)

    def any(self, depth: int) -> str:
        if self.chance(0.04):
            return self.scalar(depth)
        if self.chance(0.02):
            return self.wrong(depth)
        return self.vector(depth)

    # --- leaves -------------------------------------------------------------------------------------

    def one(self, values: Sequence[object]) -> str:
        return str(values[int(self.rng.integers(len(values)))])

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def matchers(self) -> str:
        found = []
        while self.chance(0.25):
            label = self.one(("job", "job", "instance", "code", "le", "version", "zone", "nothing"))
            value = {"job": self.one(JOBS), "instance": self.one(INSTANCES), "le": self.one(LES)}.get(
                label, self.one(("200", "404", "1.0", "eu", ""))
            )
            op = self.one(("=", "!=", "=~", "!~"))
            if op in {"=~", "!~"}:
                value = self.one(
                    (value.replace("+", "\\\\+"), f"{value[:1]}.*", "a.*|web", ".+", ".*", "[0-4].*")
                )
            found.append(f'{label}{op}"{value}"')
        return ",".join(found)

    def name(self) -> str:
        return self.one(FLOATS) if self.chance(0.82) else self.one(HISTOGRAMS)

    def selector(self, name: str = "", shifted: bool = True) -> str:
        matchers = self.matchers()
        if not name and self.chance(0.04):
            pattern = self.one(("lat_.*", "temp|level", "up|size", "requests_total|errors_total", "m.*"))
            text = f'{{__name__=~"{pattern}"{"," if matchers else ""}{matchers}}}'
        else:
            text = (name or self.name()) + (f"{{{matchers}}}" if matchers else "")
        return text + (self.shift() if shifted else "")

    def shift(self) -> str:
        text = ""
        if self.chance(0.12):
            text += f" offset {self.one(('1m', '5m', '-2m', '17s', '1h', '-30s'))}"
        if self.chance(0.07):
            at = self.one(
                ("start()", "end()", str(BASE_MS // 1000 + int(self.rng.integers(0, SPAN_MS // 1000))))
            )
            text += f" @ {at}"
        return text

    def grouping(self, words: tuple[str, ...] = ("by", "without")) -> str:
        if self.chance(0.25):
            return ""
        chosen = [label for label in LABELS if self.chance(0.25)]
        return f" {self.one(words)} ({', '.join(chosen)}) "

    # --- what has a type ----------------------------------------------------------------------------

    def scalar(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.5):
            return self.one(NUMBERS)
        pick = self.rng.random()
        if pick < 0.25:
            return f"scalar({self.vector(depth - 1)})"
        if pick < 0.4:
            return self.one(("time()", "pi()", "-2", "(1 + 2)", "start()", "end()", "step()", "range()"))
        if pick < 0.5:
            return f"{self.one(('max_of', 'min_of'))}({self.scalar(depth - 1)}, {self.scalar(depth - 1)})"
        op = self.one(ARITHMETIC)
        if self.chance(0.2):
            op = f"{self.one(COMPARISONS)} bool"
        return f"({self.scalar(depth - 1)} {op} {self.scalar(depth - 1)})"

    def matrix(self, depth: int, name: str = "") -> str:
        if depth > 0 and self.chance(0.12):
            step = self.one(STEPS) if self.chance(0.75) else ""
            return (
                f"{self.parenthesised(self.vector(depth - 1))}[{self.one(RANGES[3:])}:{step}]{self.shift()}"
            )
        width = self.one(RANGES)
        if self.chance(0.03):
            width = self.one(("1m+30s", "2*45s", "step()", "max_of(1m,step())", "10m/4"))
        return f"{self.selector(name, shifted=False)}[{width}]{self.shift()}"

    def parenthesised(self, text: str) -> str:
        return text if self.chance(0.3) and text.isidentifier() else f"({text})"

    def vector(self, depth: int) -> str:
        if depth <= 0:
            return f"vector({self.scalar(0)})" if self.chance(0.03) else self.selector()
        makers: tuple[tuple[float, Callable[[int], str]], ...] = (
            (0.26, self.over_range), (0.22, self.aggregation), (0.2, self.binary), (0.08, self.math),
            (0.09, self.histogram), (0.07, self.labels), (0.08, self.other),
        )  # fmt: skip
        pick = self.rng.random()
        for share, make in makers:
            pick -= share
            if pick < 0:
                return make(depth)
        return self.vector(depth - 1)

    def over_range(self, depth: int) -> str:
        if self.chance(0.12):
            name = self.one(("requests_total", "temp", "lat_bucket", "errors_total", "odd"))
            functions: tuple[str, ...] = ("rate", "increase", "delta", "resets", "changes")
            reach = "anchored"
            if self.chance(0.5):
                reach, functions = ("smoothed", ("rate", "increase", "delta"))
            inner = f"{self.selector(name, shifted=False)}[{self.one(RANGES)}] {reach}{self.shift()}"
            return f"{self.one(functions)}({inner})"
        inner = self.matrix(depth - 1)
        pick = self.rng.random()
        if pick < 0.05:
            return f"quantile_over_time({self.scalar(depth - 2)}, {inner})"
        if pick < 0.09:
            return f"predict_linear({inner}, {self.scalar(depth - 2)})"
        if pick < 0.12:
            return f"double_exponential_smoothing({inner}, {self.one(('0.3', '0.9', '0.01'))}, 0.4)"
        function = self.one(RANGED if self.chance(0.5) else RANGED[:12])
        return f"{function}({inner})"

    def aggregation(self, depth: int) -> str:
        inner = self.vector(depth - 1)
        pick = self.rng.random()
        if pick < 0.12:
            name = self.one(("topk", "bottomk"))
            return f"{name}{self.grouping()}({self.one(('1', '2', '3', '0', '-1', '100'))}, {inner})"
        if pick < 0.2:
            share = self.one(("0", "0.5", "0.9", "1", "1.5", "-1", "NaN"))
            return f"quantile{self.grouping()}({share}, {inner})"
        if pick < 0.23:
            return f'count_values{self.grouping()}("{self.one(("v", "job", "code"))}", {inner})'
        if pick < 0.25:
            return f"limit_ratio{self.grouping()}({self.one(('0.5', '-0.3', '1', '0'))}, {inner})"
        if pick < 0.26:
            return f"limitk{self.grouping()}({self.one(('0', '100', '-1'))}, {inner})"
        return f"{self.one(AGGREGATIONS)}{self.grouping()}({inner})"

    def binary(self, depth: int) -> str:
        left = self.vector(depth - 1)
        pick = self.rng.random()
        if pick < 0.3:
            sides = [left, self.scalar(depth - 1)]
            if self.chance(0.4):
                sides.reverse()
            op = self.one(ARITHMETIC) if self.chance(0.6) else self.one(COMPARISONS) + self.one(("", " bool"))
            return f"({sides[0]} {op} {sides[1]})"
        right = self.vector(depth - 1)
        if pick < 0.45:
            return f"({left} {self.one(SETS)}{self.grouping(('on', 'ignoring'))} {right})"
        if pick < 0.48:
            return f"({left} {self.one(('</', '>/'))} {self.scalar(0)})"
        op = self.one(ARITHMETIC) if self.chance(0.65) else self.one(COMPARISONS) + self.one(("", " bool"))
        matching = self.grouping(("on", "ignoring"))
        if matching and self.chance(0.5):
            more = self.one(("", "", "(version)", "(zone, region)", "(code)"))
            matching += f"{self.one(('group_left', 'group_right'))} {more} "
        if self.chance(0.08):
            matching += f"{self.one(('fill', 'fill_left', 'fill_right'))}({self.one(('0', '1', 'NaN'))}) "
        if self.chance(0.3):
            left, right = self.alike(depth)
        return f"({left} {op} {matching} {right})"

    def alike(self, depth: int) -> tuple[str, str]:
        """Two vectors that match each other more often."""
        by = self.one(("job", "instance", "job, instance"))
        return tuple(f"{self.one(AGGREGATIONS)} by ({by}) ({self.vector(depth - 1)})" for _ in range(2))  # type: ignore[return-value]

    def math(self, depth: int) -> str:
        inner = self.vector(depth - 1)
        pick = self.rng.random()
        if pick < 0.15:
            return f"-{self.parenthesised(inner)}" if self.chance(0.8) else f"+({inner})"
        if pick < 0.3:
            return f"round({inner}{self.one(('', ', 5', ', 0.1', ', 0.3', ', -2'))})"
        if pick < 0.45:
            return f"clamp({inner}, {self.scalar(1)}, {self.scalar(1)})"
        if pick < 0.55:
            return f"{self.one(('clamp_min', 'clamp_max'))}({inner}, {self.scalar(depth - 1)})"
        return f"{self.one(MATH)}({inner})"

    def histogram(self, _: int) -> str:
        source = self.distribution()
        pick = self.rng.random()
        quantile = self.one(("0", "0.5", "0.9", "0.99", "1", "-1", "2", "NaN", "0.25"))
        if pick < 0.4:
            return f"histogram_quantile({quantile}, {source})"
        if pick < 0.55:
            low, high = (
                self.one(("-Inf", "0", "0.3", "-1", "NaN")),
                self.one(("Inf", "1", "0.7", "10", "2.5")),
            )
            return f"histogram_fraction({low}, {high}, {source})"
        if pick < 0.6:
            return f'histogram_quantiles({source}, "q", 0.1, 0.75, {quantile})'
        return f"{self.one(HISTOGRAM_PARTS)}({source})"

    def distribution(self) -> str:
        if self.chance(0.35):
            function = self.one(("rate", "increase", "sum_over_time", "last_over_time"))
            inner = f"{function}({self.matrix(0, 'lat_bucket')})"
            by = f"sum by ({self.one(('le', 'le, job', 'job'))}) ({inner})"
            return self.one((inner, by, self.selector("lat_bucket")))
        name = self.one(HISTOGRAMS)
        pick = self.rng.random()
        if pick < 0.3:
            return self.selector(name)
        functions = (
            "rate", "increase", "delta", "irate", "idelta", "sum_over_time", "avg_over_time",
            "last_over_time", "first_over_time",
        )  # fmt: skip
        inner = f"{self.one(functions)}({self.matrix(0, name)})"
        if pick < 0.6:
            return inner
        if pick < 0.7:
            return f"({self.selector(name)} {self.one(('+', '-'))} {self.selector(name)})"
        if pick < 0.8:
            return f"({inner} {self.one(('*', '/'))} {self.scalar(1)})"
        return f"{self.one(('sum', 'avg'))}{self.grouping()}({inner})"

    def labels(self, depth: int) -> str:
        inner = self.vector(depth - 1)
        pick = self.rng.random()
        label, other = self.one(LABELS), self.one(LABELS)
        if pick < 0.4:
            pattern = self.one(("(.*)", "(.)(.*)", "a.*", "", "(?P<x>[a-z]+).*", "no"))
            value = self.one(("$1", "x-$1", "", "${x}", "$2$1", "fixed"))
            return f'label_replace({inner}, "{label}", "{value}", "{other}", "{pattern}")'
        if pick < 0.6:
            return f'label_join({inner}, "{label}", "{self.one(("-", "", "é"))}", "{other}", "job")'
        if pick < 0.75:
            wanted = self.one(("", ', {version=~".+"}', ', {__name__="build_info"}', ', {region="x"}'))
            return f"info({self.selector(self.one(('up', 'temp', 'requests_total')), shifted=False)}{wanted})"
        if pick < 0.85:
            return f"{self.one(('sort', 'sort_desc'))}({inner})"
        return f'{self.one(("sort_by_label", "sort_by_label_desc"))}({inner}, "{label}", "{other}")'

    def other(self, depth: int) -> str:
        pick = self.rng.random()
        if pick < 0.2:
            return f"absent({self.vector(depth - 1)})"
        if pick < 0.4:
            return f"timestamp({self.vector(depth - 1)})"
        if pick < 0.6:
            return f"{self.one(TIMES)}({self.vector(depth - 1) if self.chance(0.7) else ''})"
        if pick < 0.8:
            return f"vector({self.scalar(depth - 1)})"
        return f"({self.vector(depth - 1)})"

    def wrong(self, depth: int) -> str:
        """What should be refused."""
        inner = self.vector(depth - 1)
        return self.one(
            (
                f"sum({self.matrix(0)})", f"rate({inner})", f"{inner} and 1", f"topk({inner}, {inner})",
                f"{self.selector()}[5m", f"histogram_quantile({inner})", f"{inner} > bool on (job) 1",
                f'label_replace({inner}, "job", "$1", "job", "(")', f"{inner} offset 5m", f"unknown({inner})",
                "1 > 2", f'label_join({inner}, "0x", "-", "job")', "{}",
                '{job=~".*"}', f"sum by (job ({inner})",
            )
        )  # fmt: skip
