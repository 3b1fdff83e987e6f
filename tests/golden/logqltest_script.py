r"""Scripts of Loki's logqltest as plain values.

load
  {app="a"} "v={{.i}}" @ 10s [repeat every 5s for 3] [metadata k="x"]      three LogLines
eval instant at 60s count_over_time({app="a"}[1m])                         Eval(…, expected: {app="a"} 3)
  {app="a"} 3

Times are Go durations after 2026-01-01T00:00:00Z; a block is the indented lines behind its first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.vectors.vector import Labels

EPOCH_NS = 1_767_225_600 * 10**9
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_STRING = r'(?:"(?:[^"\\]|\\.)*"|`[^`]*`)'
_LABEL = re.compile(rf"\s*([a-zA-Z_][a-zA-Z0-9_.]*)\s*=\s*({_STRING})\s*,?")
_SET = rf"\{{(?P<labels>(?:[^\"`}}]|{_STRING})*)\}}"
_NUMBER = re.compile(r"\{\{\s*\.i\s*\}\}")
_LINE = re.compile(rf"{_SET}\s*(?P<line>{_STRING})\s*@\s*(?P<at>\S+)\s*(?P<more>.*)")
_REPEAT = re.compile(r"\[repeat\s+every\s+(?P<every>\S+)\s+for\s+(?P<times>\d+)\]\s*")
_METADATA = re.compile(rf"\[metadata\s+(?P<labels>(?:[^\"`\]]|{_STRING})*)\]\s*")
_ROW = re.compile(rf"{_SET}\s+(?P<values>[^#]*?)\s*(?:#.*)?")
_INSTANT = re.compile(r"eval\s+instant\s+at\s+(\S+)\s+(.+)")
_RANGE = re.compile(r"eval\s+range\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)\s+(.+)")
_FAIL = re.compile(r"expect\s+fail(?:\s+(msg|regex):\s*(.*))?")
_PIECE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


class ScriptError(ValueError):
    """The script is not one; the message has the line."""


@dataclass(frozen=True, slots=True)
class LogLine:
    labels: Labels
    """Of the stream."""
    time_ns: int
    text: str
    metadata: Labels = ()


@dataclass(frozen=True, slots=True)
class Load:
    line: int
    lines: tuple[LogLine, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    line: int


@dataclass(frozen=True, slots=True)
class Row:
    labels: Labels
    values: tuple[float | None, ...]
    """By step; None: nothing."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the error has to say."""

    text: str = ""
    is_pattern: bool = False

    def fits(self, message: str) -> bool:
        return bool(re.search(self.text, message)) if self.is_pattern else self.text in message


@dataclass(slots=True)
class Eval:
    line: int
    text: str
    start_ns: int
    end_ns: int
    step_ns: int
    """0: an instant query."""
    rows: list[Row] = field(default_factory=list)
    number: float | None = None
    """A scalar is expected."""
    failure: Said | None = None
    is_ordered: bool = False
    is_empty: bool = False

    @property
    def count(self) -> int:
        return (self.end_ns - self.start_ns) // self.step_ns + 1 if self.step_ns else 1


Command = Load | Clear | Eval


def commands(text: str) -> Iterator[Command]:
    for number, head, block in _blocks(text):
        try:
            yield _command(number, head, block)
        except ValueError as error:
            raise ScriptError(f"line {number}: {head!r}: {error}") from error


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    number, head, block = 0, "", list[str]()
    for at, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if line[0] in " \t":
            block.append(stripped)
            continue
        if head:
            yield number, head, block
        number, head, block = at, stripped, []
    if head:
        yield number, head, block


def _command(number: int, head: str, block: list[str]) -> Command:
    word = head.split(maxsplit=1)[0]
    if word == "clear":
        return Clear(number)
    if word == "load":
        return Load(number, tuple(line for text in block for line in _lines(text)))
    if word == "eval":
        return _eval(number, head, block)
    raise ScriptError("expected load, eval or clear")


def _lines(text: str) -> Iterator[LogLine]:
    found = _LINE.fullmatch(text)
    if not found:
        raise ScriptError(f'{text!r}: expected {{labels}} "line" @ TIME')
    every, times, metadata, more = 0, 1, (), found["more"]
    while more and not more.startswith("#"):
        repeat, attached = _REPEAT.match(more), _METADATA.match(more)
        if repeat:
            every, times = duration(repeat["every"]), int(repeat["times"])
        elif attached:
            metadata = labels_of(attached["labels"])
        else:
            raise ScriptError(f'{more!r}: expected [repeat every D for N] or [metadata k="v"]')
        more = more[(repeat or attached).end() :]  # type: ignore[union-attr]
    labels, line, at = (
        labels_of(found["labels"]),
        LOGQL.unquote(found["line"]),
        EPOCH_NS + duration(found["at"]),
    )
    for i in range(times):
        yield LogLine(labels, at + i * every, _NUMBER.sub(str(i), line), metadata)


def _eval(number: int, head: str, block: list[str]) -> Eval:
    instant, over = _INSTANT.fullmatch(head), _RANGE.fullmatch(head)
    if instant:
        at = EPOCH_NS + duration(instant[1])
        found = Eval(number, instant[2], at, at, 0)
    elif over:
        start, end = EPOCH_NS + duration(over[1]), EPOCH_NS + duration(over[2])
        found = Eval(number, over[4], start, end, duration(over[3]))
    else:
        raise ScriptError("expected eval instant at T EXPR or eval range from A to B step S EXPR")
    for text in block:
        _expect(found, text)
    if not (block or found.is_empty):
        raise ScriptError("expected an expectation")
    return found


def _expect(command: Eval, text: str) -> None:
    if fail := _FAIL.fullmatch(text):
        command.failure = Said((fail[2] or "").strip(), fail[1] == "regex")
    elif text == "expect ordered":
        command.is_ordered = True
    elif text == "expect empty":
        command.is_empty = True
    elif text.startswith("skip "):
        return  # names stacks of Loki's
    elif row := _ROW.fullmatch(text):
        command.rows.append(_row(command, labels_of(row["labels"]), row["values"].split()))
    else:
        _expect_numbers(command, text.split("#", maxsplit=1)[0].split())


def _expect_numbers(command: Eval, values: list[str]) -> None:
    """Without labels: a scalar, or over steps what a scalar becomes there."""
    if not command.step_ns:
        (value,) = values
        command.number = float(value)
    else:
        command.rows.append(_row(command, (), values * command.count if len(values) == 1 else values))


def _row(command: Eval, labels: Labels, values: list[str]) -> Row:
    if len(values) != command.count:
        raise ScriptError(f"{values}: expected {command.count} values")
    return Row(labels, tuple(None if value == "_" else float(value) for value in values))


def labels_of(text: str) -> Labels:
    found, at = dict[str, str](), 0
    while text[at:].strip():
        label = _LABEL.match(text, at)
        if not label:
            raise ScriptError(f'{text[at:]!r}: expected name="value"')
        found[label[1]] = LOGQL.unquote(label[2])
        at = label.end()
    return tuple(sorted(found.items()))


def duration(text: str) -> int:
    """Nanoseconds of what Go's `time.ParseDuration` takes."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if digits == "0":
        return 0
    pieces = _PIECE.findall(digits)
    if "".join(number + unit for number, unit in pieces) != digits or not pieces:
        raise ScriptError(f"{text!r}: expected a duration")
    return sign * sum(round(float(number) * _UNITS[unit]) for number, unit in pieces)
