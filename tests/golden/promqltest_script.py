r"""Scripts of Prometheus' promqltest as plain values.

load 1m
  up 1+1x3
                                 Load(60000 ms, one series of four values)
eval instant at 2m up            Eval("up", at 120000 ms, expected: up 3)
  up 3
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from lakerunner_query.gotext.durations import milliseconds
from lakerunner_query.gotext.numbers import read_number
from lakerunner_query.promql.series_notation import NotationError, SeriesLine, series_line
from lakerunner_query.vectors.vector import Labels
from tests.golden.start_lines import StartLine, is_start_line, start_line

_LOAD = re.compile(r"load(?:_(with_nhcb))?\s+(.+)")
_INSTANT = re.compile(r"eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(.+?))?\s+(.+)")
_RANGE = re.compile(r"eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)")
_EXPECT = re.compile(r"expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?")
_EXPECT_RANGE = re.compile(r"expect range vector\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+)")
_EXPECT_STRING = "expect string "


class ScriptError(ValueError):
    """The script is not one; the message has the line."""


@dataclass(frozen=True, slots=True)
class Load:
    line: int
    step_ms: int
    series: tuple[SeriesLine, ...]
    starts: dict[Labels, StartLine]
    default_starts: tuple[int | None, ...]
    with_custom_buckets: bool
    """Classic histograms also as histograms with custom buckets."""


@dataclass(frozen=True, slots=True)
class Clear:
    line: int


@dataclass(frozen=True, slots=True)
class Said:
    """A text that must come: as it is, by pattern, or any."""

    message: str | None = None
    pattern: str | None = None

    def fits(self, text: str) -> bool:
        if self.message is not None:
            return text == self.message
        return re.search(self.pattern or "", text) is not None

    def __str__(self) -> str:
        return self.message if self.message is not None else f"/{self.pattern or ''}/"


Word = Literal["ordered", "fail", "warn", "no_warn", "info", "no_info"]


@dataclass(frozen=True, slots=True)
class Times:
    start_ms: int
    end_ms: int
    step_ms: int


@dataclass(slots=True)
class Eval:
    line: int
    text: str
    times: Times
    is_range: bool
    words: dict[Word, list[Said]] = field(default_factory=dict)
    series: list[SeriesLine] = field(default_factory=list)
    number: float | None = None
    """A scalar is expected."""
    string: str | None = None
    range_vector: Times | None = None
    """An instant query for a range vector; the samples' times."""


Command = Load | Clear | Eval


def commands(text: str) -> list[Command]:
    lines = ["" if line.strip().startswith("#") else line.strip() for line in text.split("\n")]
    return list(_commands(lines))


def _commands(lines: list[str]) -> Iterator[Command]:
    at = 0
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        block = [lines[at]]
        word = lines[at].split()[0].lower()
        while word != "clear" and at + len(block) < len(lines) and lines[at + len(block)]:
            block.append(lines[at + len(block)])
        try:
            if word == "clear":
                yield Clear(at + 1)
            elif word.startswith("load"):
                yield _load(block, at + 1)
            elif word.startswith("eval"):
                command, used = _eval(block, at + 1)
                yield command
                block = block[:used]
            else:
                raise ScriptError("expected load, eval or clear")
        except ValueError as error:
            raise ScriptError(f"line {at + 1}: {block[0]!r}: {error}") from error
        at += len(block)


def _load(block: list[str], line: int) -> Load:
    head = _LOAD.fullmatch(block[0])
    if not head:
        raise ScriptError("expected load[_with_nhcb] STEP")
    starts: dict[Labels, StartLine] = {}
    default: tuple[int | None, ...] = ()
    series: dict[Labels, SeriesLine] = {}
    for text in block[1:]:
        if is_start_line(text):
            start = start_line(text)
            if start.labels:
                starts[start.labels] = start
            else:
                default = start.offsets_ms
            continue
        one = series_line(text)
        series[one.labels] = one
    return Load(line, duration(head[2]), tuple(series.values()), starts, default, head[1] is not None)


def _eval(block: list[str], line: int) -> tuple[Eval, int]:
    """The command, and how many lines it took: a single number ends it."""
    instant, over = _INSTANT.fullmatch(block[0]), _RANGE.fullmatch(block[0])
    if instant:
        at = duration(instant[2] or "")
        found = Eval(line, instant[3], Times(at, at, 0), is_range=False)
        mode = instant[1]
    elif over:
        times = Times(duration(over[2]), duration(over[3]), duration(over[4]))
        found = Eval(line, over[5], times, is_range=True)
        mode = over[1]
    else:
        raise ScriptError("expected eval instant at T EXPR or eval range from A to B step S EXPR")
    if mode:
        found.words[cast("Word", mode)] = [Said(pattern="")]
    for used, text in enumerate(block[1:], start=2):
        if _expectation(found, text):
            continue
        scalar = _scalar(text)
        if scalar is not None:
            found.number = scalar
            return found, used
        found.series.append(series_line(text))
    return found, len(block)


def _expectation(command: Eval, text: str) -> bool:
    """Whether the line is not one of values."""
    if text.startswith("expected_fail_message"):
        command.words["fail"] = [Said(message=text.removeprefix("expected_fail_message").strip())]
        return True
    if text.startswith("expected_fail_regexp"):
        command.words["fail"] = [Said(pattern=text.removeprefix("expected_fail_regexp").strip())]
        return True
    if over := _EXPECT_RANGE.fullmatch(text):
        command.range_vector = Times(duration(over[1]), duration(over[2]), duration(over[3]))
        return True
    if text.startswith(_EXPECT_STRING):
        command.string = _go_string(text.removeprefix(_EXPECT_STRING))
        return True
    if text.split(" ", maxsplit=1)[0] != "expect":
        return False
    expected = _EXPECT.fullmatch(text)
    if not expected:
        raise ScriptError(f"{text!r}: expected a known expectation")
    word, kind, value = expected.groups()
    said = Said(message=value.strip()) if kind == "msg" else Said(pattern=(value or "").strip())
    command.words.setdefault(cast("Word", word), []).append(said)
    return True


def _go_string(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    value = ast.literal_eval(text)
    if not isinstance(value, str):
        raise ScriptError(f"{text!r}: expected a quoted string")
    return value


def _scalar(text: str) -> float | None:
    sign, digits = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if text.startswith(("{", "_")) or " " in text:
        return None
    try:
        return sign * read_number(digits)
    except ValueError:
        return None


def duration(text: str) -> int:
    """Milliseconds of a duration as Prometheus' configuration has it; only zero needs no unit."""
    if text == "0":
        return 0
    if not re.fullmatch(r"(\d+(ms|[ywdhms]))+", text):
        raise ScriptError(f"{text!r}: expected a duration")
    return milliseconds(text)


__all__ = ["Clear", "Command", "Eval", "Load", "NotationError", "Said", "ScriptError", "Times", "commands"]
