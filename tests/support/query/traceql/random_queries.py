"""Random TraceQL over the fields of `random_traces.py`: the whole grammar, each query with its request.

Texts are made, not trees, so that the parser is part of what is asked. The few that the checks refuse are
made again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lakerunner_query.errors import ParseError
from lakerunner_query.traceql.lang.parser import parse
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR
from tests.support.query.traceql.random_traces import (
    BIG,
    FLOATS,
    HOURS,
    NAMES,
    NUMBERS,
    SERVICES,
    TEXTS,
    Span,
)

TEXT_FIELDS = (
    "name", "span:name", "statusMessage", "span:statusMessage", "rootName", "trace:rootName",
    "rootServiceName",
    "trace:rootService", "event:name", "instrumentation:name", "instrumentation:version",
    "resource.service.name", ".service.name", "span.text", ".text", "span.both", "resource.both", ".both",
    'span."team name"', '."team name"', "event.text", "event.mixed", "link.why", "instrumentation.mode",
    "span.mixed", ".mixed", "resource.mixed", "span.list", "span.rare", ".rare", ".absent",
    "resource.k8s.pod.name",
)  # fmt: skip
NUMBER_FIELDS = (
    "duration", "span:duration", "traceDuration", "trace:duration", "nestedSetLeft", "nestedSetRight",
    "nestedSetParent", "span:childCount", "event:timeSinceStart", "span.number", ".number", "span.float",
    ".float",
    "span.big", "span.mixed", ".mixed", "resource.host.cpus", ".host.cpus", "event.number", "event.mixed",
    "instrumentation.size", "span.list", ".http.status_code", "span.http.status_code", "span.absent",
)  # fmt: skip
FLAG_FIELDS = ("span.flag", ".flag", "span.mixed", ".mixed", "span.list", "resource.mixed")
OTHER_FIELDS = (
    "status",
    "span:status",
    "kind",
    "span:kind",
    "span.opaque",
    ".opaque",
    "span:id",
    "span:parentID",
)
ALL_FIELDS = (
    *TEXT_FIELDS,
    *NUMBER_FIELDS,
    *FLAG_FIELDS,
    *OTHER_FIELDS,
    "link:spanID",
    "link:traceID",
    "trace:id",
)
METRIC_NUMBERS = (
    "duration", "duration", "traceDuration", "span.number", "span.float", ".mixed", "resource.host.cpus",
    "span:childCount", ".http.status_code", "span.list", "event:timeSinceStart", "nestedSetLeft",
)  # fmt: skip
PATTERNS = ("a.*", "a|b", "GET.*", ".*", "[a-z]+", "", "(?i)web", ".", "web(-2)?", "x", ".+cart", r"\\d+")
DURATIONS = ("0s", "1ns", "1s", "100ms", "125ms", "1m", "5s", "20m", "-1s", "1953125ns")
RELATIONS = (">", ">>", "<", "<<", "~")
ORDERS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Question:
    """A query with its request; times in nanoseconds."""

    text: str
    kind: str
    """`search`, `range` or `instant`."""
    start_ns: int
    end_ns: int
    limit: int = 20
    spans_per_set: int = 3
    step_ns: int = 0
    rows_per_unit: int = 1_000_000
    """Bound of the plan, small in some requests so that windows are cut by trace ids."""
    first_rows: int = 20_000
    """Spans of the first window of a search, few in most requests so that windows grow."""
    parameters: dict[str, str] = field(default_factory=dict)


class Queries:
    """The questions of one seed over some spans, one after the other."""

    def __init__(self, seed: int | str, spans: Sequence[Span]) -> None:
        self.rng = random.Random(f"queries {seed}")
        self.spans = spans

    def question(self) -> Question:
        """Return a question that the checks accept."""
        while True:
            made = self._question()
            try:
                parse(made.text)
            except ParseError:
                continue
            return made

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def _question(self) -> Question:
        rng = self.rng
        rows = rng.choice((1_000_000, 1_000_000, 60, 10))
        start, end = self._range()
        if rng.random() < 0.6:
            text = self._commented(self.pipeline(2)) + self._hints("most_recent=true", "x=1")
            limit, spans = rng.choice((1, 2, 5, 20, 1000, 1000)), rng.choice((0, 1, 3, 100))
            first = rng.choice((1, 5, 20, 20_000))
            return Question(text, "search", start, end, limit, spans, 0, rows, first)
        text = self.series(2) if rng.random() < 0.85 else self._compare(start, end)
        text += self._hints("exemplars=true", "sample=false")
        if rng.random() < 0.3:
            return Question(text, "instant", start, end, 0, 0, 0, rows)
        step = rng.choice((60, 300, 7, 600, 3600, 1200)) * SECOND_NS
        step = max(step, (end - start) // rng.choice((5, 40, 40, 200)) // SECOND_NS * SECOND_NS)
        step = step if rng.random() < 0.9 else step + SECOND_NS // 2
        return Question(text, "range", start, end, 0, 0, step, rows)

    def _range(self) -> tuple[int, int]:
        """Return a range in whole seconds: all, an hour or so, or around one span."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.4:
            return HOUR - HOUR_NS, HOUR + (HOURS + 2) * HOUR_NS
        middle = (
            rng.choice(self.spans).start_ns
            if roll < 0.8
            else HOUR + rng.randrange((HOURS + 2) * 3600) * SECOND_NS
        )
        first = middle // SECOND_NS - rng.choice((0, 1, 10, 600, 3600))
        last = middle // SECOND_NS + rng.choice((1, 2, 30, 900, 3600))
        return first * SECOND_NS, last * SECOND_NS

    def _commented(self, text: str) -> str:
        return text if self.rng.random() < 0.98 else f"/* all */ {text} // of them"

    def _hints(self, *hints: str) -> str:
        return f" with ({self.pick(*hints)})" if self.rng.random() < 0.1 else ""

    # Conditions

    def condition(self, depth: int) -> str:
        roll = self.rng.random()
        if depth and roll < 0.35:
            op = self.pick("&&", "||")
            both = f"{self.condition(depth - 1)} {op} {self.condition(depth - 1)}"
            return both if self.rng.random() < 0.5 else f"({both})"
        if depth and roll < 0.43:
            return f"!({self.condition(depth - 1)})"
        if roll < 0.47:
            return self.pick("true", "false", "true", "1 = 1", "nil = nil")
        if depth and roll < 0.49:
            return f"({self.condition(0)}) {self.pick('=', '!=')} ({self.condition(0)})"
        return self.comparison()

    def comparison(self) -> str:
        makers: tuple[Callable[[], str], ...] = (
            self._of_texts, self._of_texts, self._of_texts, self._of_numbers, self._of_numbers,
            self._of_numbers,
            self._of_flags, self._of_words, self._of_words, self._of_nil, self._of_ids, self._of_fields,
        )  # fmt: skip
        return self.rng.choice(makers)()

    def _of_texts(self) -> str:
        name = self.pick(*TEXT_FIELDS)
        if self.rng.random() < 0.25:
            return f'{name} {self.pick("=~", "!~")} "{self.pick(*PATTERNS)}"'
        texts = SERVICES if "ervice" in name else NAMES if name.lower().endswith("name") else TEXTS
        quoted = self._quoted(
            self.rng.choice((*texts, *texts, "exception", "otel", "went wrong", "1.0", "absent"))
        )
        op = self.pick("=", "=", "=", *ORDERS)
        return f"{name} {op} {quoted}" if self.rng.random() < 0.9 else f"{quoted} {op} {name}"

    def _quoted(self, text: str) -> str:
        if "\n" not in text and "`" not in text and self.rng.random() < 0.2:
            return f"`{text}`"
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    def _number(self, name: str = "") -> str:
        rng = self.rng
        if "uration" in name or "Since" in name:
            return self.pick(*DURATIONS)
        return rng.choice(
            (
                str(rng.choice(NUMBERS)),
                str(rng.choice(NUMBERS)),
                str(rng.choice(FLOATS)),
                str(rng.choice(BIG)),
                self.pick(*DURATIONS),
            )
        )

    def numeric(self, depth: int) -> str:
        if depth and self.rng.random() < 0.5:
            op = self.pick("+", "-", "*", "/", "%", "^")
            return f"({self.numeric(depth - 1)} {op} {self.numeric(depth - 1)})"
        if self.rng.random() < 0.1:
            return f"-({self.pick(*NUMBER_FIELDS)})"
        return self.pick(*NUMBER_FIELDS) if self.rng.random() < 0.7 else self._number()

    def _of_numbers(self) -> str:
        if self.rng.random() < 0.35:
            return f"{self.numeric(2)} {self.pick(*ORDERS)} {self.numeric(1)}"
        name = self.pick(*NUMBER_FIELDS)
        sides = [name, self._number(name)]
        if self.rng.random() < 0.15:
            sides.reverse()
        return f"{sides[0]} {self.pick(*ORDERS)} {sides[1]}"

    def _of_flags(self) -> str:
        name = self.pick(*FLAG_FIELDS)
        roll = self.rng.random()
        if roll < 0.3:
            return name
        if roll < 0.45:
            return f"!{name}"
        sides = [name, self.pick("true", "false")]
        if roll < 0.55:
            sides.reverse()
        return f"{sides[0]} {self.pick('=', '!=')} {sides[1]}"

    def _of_words(self) -> str:
        op = self.pick("=", "!=")
        if self.rng.random() < 0.5:
            return f"{self.pick('status', 'span:status')} {op} {self.pick('ok', 'error', 'unset')}"
        kinds = ("unspecified", "internal", "server", "client", "producer", "consumer")
        return f"{self.pick('kind', 'span:kind')} {op} {self.pick(*kinds)}"

    def _of_nil(self) -> str:
        name, op = self.pick(*ALL_FIELDS), self.pick("=", "!=", "!=")
        return f"{name} {op} nil" if self.rng.random() < 0.9 else f"nil {op} {name}"

    def _of_ids(self) -> str:
        """Compare an id with that of a span, sometimes without its leading zeros or in upper case."""
        rng, span = self.rng, self.rng.choice(self.spans)
        name, raw = rng.choice(
            (
                ("trace:id", span.trace), ("span:id", span.span), ("span:parentID", span.parent),
                ("span:parentID", span.span),
                ("link:traceID", span.links[0].trace if span.links else span.trace),
                ("link:spanID", span.links[0].span if span.links else span.span),
            )
        )  # fmt: skip
        text = raw.hex()
        if "trace" in name and rng.random() < 0.3:
            text = rng.choice((text.lstrip("0"), text.upper()))
        return f'{name} {self.pick("=", "=", "!=", "=~")} "{text}"'

    def _of_fields(self) -> str:
        fields = self.pick("texts", "numbers", "flags")
        names = {"texts": TEXT_FIELDS, "numbers": NUMBER_FIELDS, "flags": FLAG_FIELDS}[fields]
        op = self.pick("=", "!=", *(("<", ">=") if fields == "numbers" else ()))
        return f"{self.pick(*names)} {op} {self.pick(*names)}"

    # Span sets

    def filter(self, depth: int = 2) -> str:
        if self.rng.random() < 0.12:
            return self.pick("{}", "{ }", "{ true }")
        return f"{{ {self.condition(depth)} }}"

    def spanset(self, depth: int) -> str:
        if depth and self.rng.random() < 0.45:
            op = self.pick("&&", "||", *RELATIONS, *(f"{mark}{one}" for mark in "!&" for one in RELATIONS))
            both = f"{self.spanset(depth - 1)} {op} {self.spanset(depth - 1)}"
            return both if self.rng.random() < 0.5 else f"({both})"
        return self.filter(1 if depth < 2 else 2)

    def pipeline(self, depth: int) -> str:
        rng = self.rng
        if depth and rng.random() < 0.1:
            op = self.pick("&&", "||", *RELATIONS, "!>>", "&~")
            return f"({self.pipeline(0)}) {op} ({self.pipeline(0)})"
        stages = [self.spanset(2), *(self._stage() for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3))))]
        if rng.random() < 0.08:
            stages[0] = self._stage()
        return " | ".join(stages)

    def _stage(self) -> str:
        roll = self.rng.random()
        if roll < 0.3:
            return f"by({self.pick(*ALL_FIELDS) if self.rng.random() < 0.8 else self.numeric(1)})"
        if roll < 0.6:
            return self._scalar_filter()
        if roll < 0.7:
            return "coalesce()"
        if roll < 0.85:
            names = [self.pick(*ALL_FIELDS) for _ in range(self.rng.randrange(1, 4))]
            return f"select({', '.join(names)})"
        return self.spanset(1)

    def _scalar_filter(self) -> str:
        if self.rng.random() < 0.5:
            return f"count() {self.pick(*ORDERS)} {self.rng.randrange(5)}"
        op, operand = self.pick("min", "max", "avg", "sum"), self.numeric(1)
        return f"{op}({operand}) {self.pick(*ORDERS)} {self._number(operand)}"

    # Metrics

    def aggregation(self) -> str:
        name = self.pick(
            "rate", "rate", "count_over_time", "min_over_time", "max_over_time", "avg_over_time",
            "sum_over_time",
            "quantile_over_time", "histogram_over_time",
        )  # fmt: skip
        operand = "" if name in {"rate", "count_over_time"} else self.pick(*METRIC_NUMBERS)
        if name == "quantile_over_time":
            quantiles = self.rng.sample((".5", "0", "1", ".9", ".99", ".25"), self.rng.randrange(1, 4))
            operand += "".join(f", {one}" for one in quantiles)
        by = ""
        if self.rng.random() < 0.6:
            fields = dict.fromkeys(self.pick(*ALL_FIELDS) for _ in range(self.rng.randrange(1, 4)))
            by = f" by ({', '.join(fields)})"
        return f"{self.pipeline(1)} | {name}({operand}){by}"

    def series(self, depth: int) -> str:
        rng = self.rng
        if depth and rng.random() < 0.2:
            op = self.pick("+", "-", "*", "/")
            if rng.random() < 0.3:
                sides = [f"({self.series(0)})", self.pick("2", "0.5", "0", "100")]
                if rng.random() < 0.5:
                    sides.reverse()
                text = f" {op} ".join(sides)
            else:
                text = f"({self.series(0)}) {op} ({self.series(0)})"
        else:
            text = self.aggregation()
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            if rng.random() < 0.6:
                text += f" | {self.pick('topk', 'bottomk')}({rng.randrange(1, 5)})"
            else:
                text += f" {self.pick(*ORDERS)} {self.pick('0', '1', '0.5', '2', '100ms', '1s', '-1')}"
        return text

    def _compare(self, start: int, end: int) -> str:
        rng = self.rng
        arguments = [self.filter(1)]
        if rng.random() < 0.5:
            arguments.append(str(rng.choice((1, 2, 5, 1000))))
            if rng.random() < 0.4:
                arguments += [str(start + (end - start) // 4), str(end - (end - start) // 4)]
        return f"{self.pipeline(1)} | compare({', '.join(arguments)})"
