"""Random LogQL from a seed: queries that parse, and such queries spoiled.

    Queries(seed=7).log_query()      {env=~".+"} |= "a" or "b" | logfmt | status >= 500 or took > 1.5s
    Queries(seed=7).metric_query()   topk(3, sum by (app) (rate({app="web"} | json [5m] offset 1m))) > 2
    Queries(seed=7).spoiled(text)    the text with a token lost, doubled, exchanged or out of place

`Words` says which labels, fields and texts occur, so that queries find something in data that has them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

RANGES = ("5s", "1m", "5m", "90s", "1h", "1h30m", "1d")
OFFSETS = ("1m", "-1m", "30s", "1h")
LINES = ("count_over_time", "rate", "bytes_over_time", "bytes_rate")
NUMBERS = (
    *("sum_over_time", "avg_over_time", "min_over_time", "max_over_time", "stddev_over_time"),
    *("stdvar_over_time", "first_over_time", "last_over_time", "rate", "rate_counter"),
)
GROUPED = frozenset(NUMBERS) - {"sum_over_time", "rate", "rate_counter"}
VECTORS = ("sum", "avg", "min", "max", "count", "stddev", "stdvar")
ARITHMETIC = ("+", "-", "*", "/", "%", "^")
COMPARISONS = ("==", "!=", ">", ">=", "<", "<=")
SETS = ("and", "or", "unless")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|[\w.]+|[|!=<>~]+|\S')


@dataclass(frozen=True, slots=True)
class Words:
    streams: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {"app": ("web", "api", "db"), "env": ("prod", "dev")}
    )
    texts: tuple[str, ...] = ("error", "GET", "a b", "=", "")
    patterns: tuple[str, ...] = ("err.*", "(?i)get", "[0-9]+", "a|b", "")
    line_patterns: tuple[str, ...] = ("<_> error <_>", "level=<_>", "<_>GET<_>")
    addresses: tuple[str, ...] = ("10.0.0.0/8", "192.168.0.1", "10.0.0.1-10.0.0.9", "fe80::/10")
    fields: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {
            "level": ("info", "error"),
            "method": ("GET", "POST"),
            "status": ("200", "500"),
        }
    )
    numbers: tuple[str, ...] = ("status", "n")
    durations: tuple[str, ...] = ("took",)
    sizes: tuple[str, ...] = ("size",)
    parsers: tuple[str, ...] = (
        *("json", "logfmt", "logfmt --strict", "logfmt --keep-empty", "unpack"),
        *('json status="a.b[0]", n', 'logfmt level, took="t"'),
        *("regexp `status=(?P<status>\\d+)`", 'pattern "<_> <method> <_>"'),
    )
    templates: tuple[str, ...] = ("{{.level}}", "{{ .app | ToUpper }}-{{.n}}", "{{__line__}}", "x", "")


class Queries:
    def __init__(self, seed: int, words: Words | None = None) -> None:
        self._random = random.Random(seed)
        self.words = words or Words()

    def any_query(self) -> str:
        return self.log_query() if self._chance(0.4) else self.metric_query()

    def log_query(self) -> str:
        return self.selector() + self.pipeline()

    def metric_query(self, depth: int = 3) -> str:
        ways: list[Callable[[int], str]] = [self._range_aggregation]
        if depth > 0:
            ways += [
                self._range_aggregation,
                self._vector_aggregation,
                self._vector_aggregation,
                self._operation,
            ]
            ways += [self._label_replace, self._parentheses]
        return self._pick(ways)(depth)

    # log queries

    def selector(self) -> str:
        names = self._some(tuple(self.words.streams), 1, 2)
        first = f"{names[0]}{self._positive(self.words.streams[names[0]])}"
        rest = [f"{name}{self._matched(self.words.streams[name])}" for name in names[1:]]
        return "{" + self._gap(", ", ",").join((first, *rest)) + "}"

    def pipeline(self, most: int = 4) -> str:
        return "".join(f" {self.stage()}" for _ in range(self._random.randint(0, most)))

    def stage(self) -> str:
        ways = (
            self._line_filter,
            self._parser,
            self._label_filter,
            self._label_filter,
            self._format,
            self._named,
        )
        return self._pick(ways)()

    def _line_filter(self) -> str:
        op = self._pick(("|=", "|=", "!=", "|~", "!~", "|>", "!>"))
        texts = {"~": self.words.patterns, ">": self.words.line_patterns}.get(op[1], self.words.texts)
        operands = [self._quoted(self._pick(texts)) for _ in range(self._pick((1, 1, 1, 2, 3)))]
        if op[1] == "=" and self._chance(0.15):
            operands[-1] = self._ip()
        return f"{op} {' or '.join(operands)}"

    def _ip(self) -> str:
        return f"ip({self._quoted(self._pick(self.words.addresses))})"

    def _parser(self) -> str:
        return f"| {self._pick(self.words.parsers)}"

    def _format(self) -> str:
        if self._chance(0.5):
            return f"| line_format {self._quoted(self._pick(self.words.templates))}"
        names = self._some(("x", "y", *self.words.fields), 1, 2)
        return "| label_format " + self._gap(", ", ",").join(f"{name}={self._formatted()}" for name in names)

    def _formatted(self) -> str:
        fields = (*self.words.fields, *self.words.streams)
        return self._pick(fields) if self._chance(0.5) else self._quoted(self._pick(self.words.templates))

    def _named(self) -> str:
        if self._chance(0.2):
            return "| decolorize"
        names = self._some((*self.words.fields, *self.words.streams, "x"), 1, 3)
        items = [
            f"{name}{self._matched(self._values(name))}" if self._chance(0.3) else name for name in names
        ]
        return f"| {self._pick(('keep', 'drop'))} {', '.join(items)}"

    def _label_filter(self) -> str:
        return f"| {self._condition(2)}"

    def _condition(self, depth: int) -> str:
        if depth == 0 or self._chance(0.5):
            return self._simple_condition()
        left, right = self._condition(depth - 1), self._condition(depth - 1)
        joined = f"{left}{self._pick((' and ', ' or ', ' or ', ', ', ' '))}{right}"
        return f"({joined})" if self._chance(0.3) else joined

    def _simple_condition(self) -> str:
        words = self.words
        ways: list[Callable[[], str]] = [self._string_condition, self._string_condition]
        ways.append(lambda: self._compared(words.numbers, ("200", "-1", "1.5", "499", "+3", "1e3", "0")))
        ways.append(lambda: self._compared(words.durations, ("1s", "250ms", "1.5h", "1d", "-2s", "1m30s")))
        ways.append(lambda: self._compared(words.sizes, ("1KB", "42MB", "5B", "1.5GB", "2kB")))
        if self._chance(0.2):
            ways.append(lambda: f"{self._pick(words.numbers)}{self._pick(('=', '!='))}{self._ip()}")
        return self._pick(ways)()

    def _string_condition(self) -> str:
        name = self._pick((*self.words.fields, *self.words.streams, "__error__"))
        return f"{name}{self._matched(self._values(name))}"

    def _compared(self, names: tuple[str, ...], values: tuple[str, ...]) -> str:
        op = self._gap(" ", "").join(("", self._pick((*COMPARISONS, "=")), ""))
        return f"{self._pick(names)}{op}{self._pick(values)}"

    # metric queries

    def _range_aggregation(self, _depth: int) -> str:
        if self._chance(0.1):
            return f"absent_over_time({self._ranged('')})"
        if self._chance(0.6):
            return f"{self._pick(LINES)}({self._ranged('')})"
        op = self._pick((*NUMBERS, "quantile_over_time"))
        parameter = f"{self._pick(('0.5', '0.99', '0', '1', '.9'))}, " if op == "quantile_over_time" else ""
        grouped = (op in GROUPED or parameter) and self._chance(0.5)
        return f"{op}({parameter}{self._ranged(self._unwrap())}){f' {self.grouping()}' if grouped else ''}"

    def _unwrap(self) -> str:
        words = self.words
        label = self._pick(words.numbers)
        if self._chance(0.3):
            label = f"{self._pick(('duration', 'duration_seconds'))}({self._pick(words.durations)})"
        elif self._chance(0.2):
            label = f"bytes({self._pick(words.sizes)})"
        filters = ' | __error__=""' if self._chance(0.6) else ""
        return f" | unwrap {label}{filters}"

    def _ranged(self, unwrap: str) -> str:
        brackets = f"[{self._pick(RANGES)}]"
        offset = f" offset {self._pick(OFFSETS)}" if self._chance(0.15) else ""
        selector, pipeline = self.selector(), self.pipeline(3)
        if self._chance(0.1):
            return f"{selector}{brackets}{offset}{pipeline}{unwrap}"
        if self._chance(0.1):
            return f"({selector}{pipeline}{unwrap}){brackets}{offset}"
        return f"{selector}{pipeline}{unwrap} {brackets}{offset}"

    def _vector_aggregation(self, depth: int) -> str:
        inner = self.metric_query(depth - 1)
        if self._chance(0.2):
            return f"{self._pick(('sort', 'sort_desc'))}({inner})"
        ranked = self._chance(0.25)
        op = self._pick(("topk", "bottomk")) if ranked else self._pick(VECTORS)
        arguments = f"({self._pick(('1', '3', '10'))}, {inner})" if ranked else f"({inner})"
        if self._chance(0.3):
            return f"{op}{arguments}"
        before = self._chance(0.5)
        return f"{op} {self.grouping()} {arguments}" if before else f"{op}{arguments} {self.grouping()}"

    def grouping(self) -> str:
        names = self._some((*self.words.streams, *self.words.fields), 0, 2)
        return f"{self._pick(('by', 'by', 'without'))} ({', '.join(names)})"

    def _operation(self, depth: int) -> str:
        op = self._pick((*ARITHMETIC, *COMPARISONS, *SETS))
        left, right = self._side(depth, op), self._side(depth, op)
        modifier = "bool " if op in COMPARISONS and self._chance(0.4) else ""
        if self._chance(0.3):
            labels = ", ".join(self._some(tuple(self.words.streams), 0, 2))
            modifier += f"{self._pick(('on', 'ignoring'))} ({labels}) "
            if op not in SETS and self._chance(0.3):
                modifier += f"{self._pick(('group_left', 'group_right'))} ({self._pick(('', 'level'))}) "
        return f"{left} {op} {modifier}{right}"

    def _side(self, depth: int, op: str) -> str:
        if op not in SETS and self._chance(0.3):
            return self._pick(("1", "2", "-3", "0.5", "1e3", "vector(2)"))
        return self.metric_query(depth - 1)

    def _label_replace(self, depth: int) -> str:
        source = self._pick((*self.words.streams, *self.words.fields))
        pattern = self._pick(("(.*)", "(.)(.*)", "web|(?P<x>a.*)"))
        return f'label_replace({self.metric_query(depth - 1)}, "new", "$1", "{source}", "{pattern}")'

    def _parentheses(self, depth: int) -> str:
        return f"({self.metric_query(depth - 1)})"

    # spoiling

    def spoiled(self, text: str) -> str:
        """The text with one to three accidents."""
        if self._chance(0.3):
            return self._scratched(text)
        pieces = _PIECE.findall(text)
        for _ in range(self._pick((1, 1, 1, 2, 3))):
            at = self._random.randrange(len(pieces)) if pieces else 0
            self._pick((_drop, _double, _exchange, self._foreign, self._foreign, _cut))(pieces, at)
        return " ".join(pieces) if self._chance(0.8) else "".join(pieces)

    def _scratched(self, text: str) -> str:
        """A character lost, or another in its place."""
        at = self._random.randrange(len(text))
        other = self._pick(("", "", *"{}()[]|=\"`,.-5 m~!#/'"))
        return text[:at] + other + text[at + 1 :]

    def _foreign(self, pieces: list[str], at: int) -> None:
        pieces.insert(at, self._pick(FOREIGN))

    # choosing

    def _pick(self, items: Sequence[T]) -> T:
        return self._random.choice(items)

    def _some(self, items: tuple[str, ...], least: int, most: int) -> list[str]:
        return self._random.sample(items, self._random.randint(least, min(most, len(items))))

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _gap(self, *ways: str) -> str:
        return self._pick(ways)

    def _values(self, name: str) -> tuple[str, ...]:
        return self.words.fields.get(name) or self.words.streams.get(name) or ("", "JSONParserErr")

    def _positive(self, values: tuple[str, ...]) -> str:
        if self._chance(0.5):
            return f'="{self._pick(values)}"'
        return self._pick(('=~".+"', f'=~"{"|".join(values[:2])}"', '!=""'))

    def _matched(self, values: tuple[str, ...]) -> str:
        op = self._pick(("=", "=", "!=", "=~", "!~"))
        value = self._pick(values)
        return f'{op}"{value}"' if "~" not in op else f'{op}"{self._pick((value, value + ".*", ".+", ""))}"'

    def _quoted(self, text: str) -> str:
        if "`" not in text and self._chance(0.3):
            return f"`{text}`"
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


FOREIGN = (
    *"{}()[],|=<>!~+-*/%^.;'\"`#$@5",
    *("|=", "!=", "=~", "!~", "==", ">=", "|>", "!>", "and", "or", "unless", "by", "without", "on", "bool"),
    *(
        "group_left",
        "offset",
        "json",
        "logfmt",
        "unwrap",
        "ip(",
        "duration(",
        "rate(",
        "sum(",
        "topk(",
        "vector(",
    ),
    *("label_format", "line_format", "drop", "keep", "[5m]", "[5", "5m", "5MB", "5mb", "1.5", "-1", "0x10"),
    *(
        "a",
        "app",
        '"x"',
        "``",
        "--strict",
        "--foo",
        "/*",
        "//",
        "1e",
        "089",
        "\\",
        "é",
        "pattern",
        '"<a><b>"',
    ),
    *("variants", "of", "sort", "label_replace(", "quantile_over_time(", "\n", "[1x]", "-5m", "-0"),
)
"""Tokens that belong to the language, somewhere, and a few that do not."""


def _drop(pieces: list[str], at: int) -> None:
    del pieces[at : at + 1]


def _double(pieces: list[str], at: int) -> None:
    pieces[at:at] = pieces[at : at + 1]


def _exchange(pieces: list[str], at: int) -> None:
    pieces[at : at + 2] = reversed(pieces[at : at + 2])


def _cut(pieces: list[str], at: int) -> None:
    if at > 1:
        del pieces[at:]
