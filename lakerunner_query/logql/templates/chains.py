"""Templates in pieces that work column by column, and chains of functions over one column.

    "{{.app}}: {{.msg | upper}}"            →   Label(app), Plain(": "), Computed(.msg | upper)
    {{ .path | replace "/" "." | upper }}   →   label path:  replace("/", ".", □), upper(□)
    {{ date "2006-01-02" __timestamp__ }}   →   time:  date("2006-01-02", □)

A computed piece runs once per distinct combination of what it reads. A chain hands one value through
functions, each with constants beside it, and needs no run of the template: its functions are called on each
distinct value directly. An action that may not fit (another type, too few arguments) is no chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from lakerunner_query.gotext.fmt_print import print_value
from lakerunner_query.gotext.limits import Budget, allow_text
from lakerunner_query.gotext.regexp import replace_all_in
from lakerunner_query.gotext.template.ast import (
    Action,
    Command,
    Field,
    Identifier,
    Node,
    Number,
    Operand,
    Pipeline,
    String,
    Text,
    Tree,
)
from lakerunner_query.gotext.values import ANY, FLOAT, INT, STRING, TIME, VALUE, Function, Row, TemplateError
from lakerunner_query.logql.lang.templates import (
    TemplateReads,
    declares_variable,
    label_of,
    reads_of,
    template_tree,
)
from lakerunner_query.logql.templates.functions import FUNCTIONS


class ChainSource(Enum):
    LABEL = "label"
    LINE = "line"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Step:
    """Call of a function on the value."""

    function: Function
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    """Constants before and behind the value."""


@dataclass(frozen=True, slots=True)
class ColumnChain:
    """ChainSource of a value and the calls that it goes through."""

    source: ChainSource
    label: str
    """Name of the label, if the source is one."""
    steps: tuple[Step, ...]


_OF_TEXT = frozenset(
    {"lower", "upper", "ToLower", "ToUpper", "title", "trim", "TrimSpace", "trimAll", "Trim"}
    | {"TrimLeft", "TrimRight", "trimPrefix", "trimSuffix", "TrimPrefix", "TrimSuffix"}
    | {"replace", "Replace", "trunc", "substr", "alignLeft", "alignRight", "repeat"}
    | {"indent", "nindent", "urlencode", "urldecode", "b64enc", "b64dec"}
    | {"regexReplaceAll", "regexReplaceAllLiteral", "date", "unixEpoch", "unixEpochMillis", "unixEpochNanos"}
)
"""Functions with a text as their result."""
_LAST = frozenset(
    {"len", "count", "contains", "hasPrefix", "hasSuffix", "int", "float64", "bytes", "duration"}
)
"""Functions with another result: only the end of a chain may have them."""
_SOURCES = {"__line__": ChainSource.LINE, "__timestamp__": ChainSource.TIME}


def chain_of(action: Action) -> ColumnChain | None:
    pipeline = action.pipeline
    if pipeline.variables or len(pipeline.commands[0].words) == 0:
        return None
    start = _start(pipeline)
    if start is None:
        return None
    source, label, steps = start
    kind: str | None = TIME if source is ChainSource.TIME else STRING
    for step in steps:
        if step is None or kind is None or not _takes(step, kind):
            return None
        kind = STRING if step.function.name in _OF_TEXT else None
    found = tuple(step for step in steps if step is not None)
    return ColumnChain(source, label, found) if found else None


def _start(pipeline: Pipeline) -> tuple[ChainSource, str, list[Step | None]] | None:
    """Return source and label of the value, and the steps behind it."""
    first, rest = pipeline.commands[0], pipeline.commands[1:]
    further = [_step(command, len(command.words)) for command in rest]
    if len(first.words) == 1 and (source := _source(first.words[0])):
        return (*source, further)
    places = [at for at, word in enumerate(first.words) if at and _source(word)]
    if len(places) != 1 or (source := _source(first.words[places[0]])) is None:
        return None
    return (*source, [_step(first, places[0]), *further])


def _source(word: Operand) -> tuple[ChainSource, str] | None:
    if isinstance(word, Field) and len(word.names) == 1:
        return ChainSource.LABEL, word.names[0]
    if isinstance(word, Identifier) and word.name in _SOURCES:
        return _SOURCES[word.name], ""
    return None


def _step(command: Command, place: int) -> Step | None:
    """Return the call with the value as its word number `place`; None if that does not fit."""
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


_AT_ONCE: dict[str, Callable[[list[str], tuple[Any, ...], tuple[Any, ...]], list[str] | None]] = {
    "regexReplaceAll": lambda texts, before, after: (
        replace_all_in(texts, before[0], after[0]) if len(before) == 1 else None
    ),
}
"""Functions that Arrow computes for all values in one call; None where it cannot."""


def run_chain(chain: ColumnChain, values: list[Any], row: Row, budget: Budget) -> list[str] | None:
    """Hand values through a chain; None where a function fails on any of them.

    The template is run as it stands then: only that run knows the message.
    """
    budget.start_line()
    try:
        for step in chain.steps:
            budget.read_texts(max((len(text) for text in values if isinstance(text, str)), default=0))
            values = _run_step(step, values, row, budget)
    except TemplateError:
        return None
    return [value if isinstance(value, str) else print_value(value) for value in values]


def _run_step(step: Step, values: list[Any], row: Row, budget: Budget) -> list[Any]:
    at_once = _AT_ONCE.get(step.function.name)
    made = at_once(values, step.before, step.after) if at_once else None
    if made is None:
        made = [_call(step, value, row, budget) for value in values]
    longest = max((len(text) for text in made if isinstance(text, str)), default=0)
    allow_text(longest)
    budget.hold_step(sum(len(text) for text in made if isinstance(text, str)))
    return made


def _call(step: Step, value: Any, row: Row, budget: Budget) -> Any:
    budget.line_steps = 0
    budget.step()
    call = step.function.call
    if step.function.takes_row:
        return call(row, *step.before, value, *step.after)
    return call(*step.before, value, *step.after)


@dataclass(frozen=True, slots=True)
class Plain:
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class Computed:
    nodes: tuple[Node, ...]
    reads: TemplateReads
    chain: ColumnChain | None = None
    """Chain that makes the same text without a run of the template."""


Piece = Plain | Label | Computed


@dataclass(frozen=True, slots=True)
class Template:
    tree: Tree
    pieces: tuple[Piece, ...]
    reads: TemplateReads


@lru_cache(maxsize=512)
def compile_template(text: str, name: str = "line") -> Template:
    """Split a template into pieces, once per query; `name` is what errors call it: `line` or `label`.

    Variables tie the rest of a template together: from the first declaration on it is one piece.
    """
    tree = template_tree(text, name)
    nodes, defined = tree.root.nodes, tree.defined.values()
    tied = next((at for at, node in enumerate(nodes) if declares_variable(node)), len(nodes))
    pieces = [_piece(node, tree) for node in nodes[:tied]]
    if tied < len(nodes):
        pieces.append(Computed(nodes[tied:], reads_of(nodes[tied:], defined)))
    return Template(tree, tuple(pieces), reads_of(nodes, defined))


def _piece(node: Node, tree: Tree) -> Piece:
    if isinstance(node, Text):
        return Plain(node.value)
    if name := label_of(node):
        return Label(name)
    chain = chain_of(node) if isinstance(node, Action) else None
    return Computed((node,), reads_of((node,), tree.defined.values()), chain)
