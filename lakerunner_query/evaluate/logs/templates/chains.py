"""Actions that are one value handed through functions, each with constants beside it.

    {{ .path | replace "/" "." | upper }}   →   label path:  replace("/", ".", □), upper(□)
    {{ date "2006-01-02" __timestamp__ }}   →   time:  date("2006-01-02", □)

Such an action needs no run of the template: its functions are called on each distinct value directly. What
cannot be told beforehand to fit (another type, too few arguments) is no chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from lakerunner_query.evaluate.logs.templates.functions import FUNCTIONS
from lakerunner_query.gotext.template.ast import (
    Action,
    Command,
    Field,
    Identifier,
    Number,
    Operand,
    Pipeline,
    String,
)
from lakerunner_query.gotext.values import ANY, FLOAT, INT, STRING, TIME, VALUE, Function


class Source(Enum):
    LABEL = "label"
    LINE = "line"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Step:
    function: Function
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    """The constants before and behind the value."""


@dataclass(frozen=True, slots=True)
class Chain:
    source: Source
    label: str
    """Of a label, its name."""
    steps: tuple[Step, ...]


_OF_TEXT = frozenset(
    {"lower", "upper", "ToLower", "ToUpper", "title", "trim", "TrimSpace", "trimAll", "Trim"}
    | {"TrimLeft", "TrimRight", "trimPrefix", "trimSuffix", "TrimPrefix", "TrimSuffix"}
    | {"replace", "Replace", "trunc", "substr", "alignLeft", "alignRight", "repeat"}
    | {"indent", "nindent", "urlencode", "urldecode", "b64enc", "b64dec"}
    | {"regexReplaceAll", "regexReplaceAllLiteral", "date", "unixEpoch", "unixEpochMillis", "unixEpochNanos"}
)
"""Functions whose result is a text."""
_LAST = frozenset(
    {"len", "count", "contains", "hasPrefix", "hasSuffix", "int", "float64", "bytes", "duration"}
)
"""Those that only the end of a chain may have: of another type."""
_SOURCES = {"__line__": Source.LINE, "__timestamp__": Source.TIME}


def chain_of(action: Action) -> Chain | None:
    pipeline = action.pipeline
    if pipeline.variables or len(pipeline.commands[0].words) == 0:
        return None
    start = _start(pipeline)
    if start is None:
        return None
    source, label, steps = start
    kind: str | None = TIME if source is Source.TIME else STRING
    for step in steps:
        if step is None or kind is None or not _takes(step, kind):
            return None
        kind = STRING if step.function.name in _OF_TEXT else None
    found = tuple(step for step in steps if step is not None)
    return Chain(source, label, found) if found else None


def _start(pipeline: Pipeline) -> tuple[Source, str, list[Step | None]] | None:
    """Where the value comes from, and the steps behind it."""
    first, rest = pipeline.commands[0], pipeline.commands[1:]
    handed_on = [_step(command, len(command.words)) for command in rest]
    if len(first.words) == 1 and (source := _source(first.words[0])):
        return (*source, handed_on)
    places = [at for at, word in enumerate(first.words) if at and _source(word)]
    if len(places) != 1 or (source := _source(first.words[places[0]])) is None:
        return None
    return (*source, [_step(first, places[0]), *handed_on])


def _source(word: Operand) -> tuple[Source, str] | None:
    if isinstance(word, Field) and len(word.names) == 1:
        return Source.LABEL, word.names[0]
    if isinstance(word, Identifier) and word.name in _SOURCES:
        return _SOURCES[word.name], ""
    return None


def _step(command: Command, place: int) -> Step | None:
    """The call with the value as its word number `place`; None if it cannot be called so."""
    name = command.words[0]
    if not isinstance(name, Identifier) or name.name not in _OF_TEXT | _LAST:
        return None
    function = FUNCTIONS[name.name]
    others = [*command.words[1:place], *command.words[place + 1 :]]
    if len(others) + 1 != len(function.parameters) or function.rest:
        return None
    kinds = [*function.parameters[: place - 1], *function.parameters[place:]]
    constants = [_constant(word, kind) for word, kind in zip(others, kinds, strict=True)]
    if any(constant is None for constant in constants):
        return None
    return Step(function, tuple(constants[: place - 1]), tuple(constants[place - 1 :]))


def _constant(word: Operand, kind: str) -> Any:
    if kind == STRING and isinstance(word, String):
        return word.value
    if kind == INT and isinstance(word, Number):
        return word.integer
    return word.floating if kind == FLOAT and isinstance(word, Number) else None


def _takes(step: Step, kind: str) -> bool:
    wanted = step.function.type_of(len(step.before))
    return wanted in {ANY, VALUE, kind}
