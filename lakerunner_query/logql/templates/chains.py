"""Actions that are one value handed through functions, each with constants beside it.

    {{ .path | replace "/" "." | upper }}   →   label path:  replace("/", ".", □), upper(□)
    {{ date "2006-01-02" __timestamp__ }}   →   time:  date("2006-01-02", □)

Such an action needs no run of the template: its functions are called on each distinct value directly. What
cannot be told beforehand to fit (another type, too few arguments) is no chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import Any

from lakerunner_query.gotext.fmt_print import printed
from lakerunner_query.gotext.limits import Budget, allow_text
from lakerunner_query.gotext.regexp import replace_all_in
from lakerunner_query.gotext.template import ast
from lakerunner_query.gotext.template.ast import (
    Action,
    Block,
    Branch,
    Call,
    Chain,
    Command,
    Dot,
    Field,
    Identifier,
    If,
    Node,
    Number,
    Operand,
    Pipeline,
    String,
    Text,
    Tree,
    Variable,
)
from lakerunner_query.gotext.template.parser import parse
from lakerunner_query.gotext.values import ANY, FLOAT, INT, STRING, TIME, VALUE, Function, Row, TemplateError
from lakerunner_query.logql.templates.functions import FUNCTIONS


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
class ColumnChain:
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


def chain_of(action: Action) -> ColumnChain | None:
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
    return ColumnChain(source, label, found) if found else None


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


# << A chain of functions over a list of values.
# <<
# << Where a function fails on any value there is no result, and the template is run as it stands: only
# << that run
# << knows how to word the failure.

_AT_ONCE: dict[str, Callable[[list[str], tuple[Any, ...], tuple[Any, ...]], list[str] | None]] = {
    "regexReplaceAll": lambda texts, before, after: (
        replace_all_in(texts, before[0], after[0]) if len(before) == 1 else None
    ),
}
"""Functions that Arrow does for all values in one call; None where it may not."""


def chained(chain: ColumnChain, values: list[Any], row: Row, budget: Budget) -> list[str] | None:
    try:
        for step in chain.steps:
            values = _stepped(step, values, row, budget)
    except TemplateError:
        return None
    return [value if isinstance(value, str) else printed(value) for value in values]


def _stepped(step: Step, values: list[Any], row: Row, budget: Budget) -> list[Any]:
    at_once = _AT_ONCE.get(step.function.name)
    made = at_once(values, step.before, step.after) if at_once else None
    if made is None:
        made = [_called(step, value, row, budget) for value in values]
    longest = max((len(text) for text in made if isinstance(text, str)), default=0)
    allow_text(longest)
    budget.hold_step(sum(len(text) for text in made if isinstance(text, str)))
    return made


def _called(step: Step, value: Any, row: Row, budget: Budget) -> Any:
    budget.start_line()
    budget.step()
    call = step.function.call
    if step.function.of_row:
        return call(row, *step.before, value, *step.after)
    return call(*step.before, value, *step.after)


# << What of a row a template looks at, so that nothing else is read and equal inputs are rendered once.
# <<
# <<     {{.app}} {{if eq .level "error"}}{{__line__}}{{end}}   →   labels app and level, the line
# <<
# << A dot that is used as a whole (`{{.}}`, `{{index . "x"}}`, `{{template "t" .}}`) reads all labels. Inside
# << `with` and `range` the dot is something else, and `$` is still the row.


@dataclass(frozen=True, slots=True)
class Reads:
    labels: frozenset[str] | None
    """None: all there are."""
    line: bool = False
    time: bool = False


def reads_of(nodes: Iterable[Node], defined: Iterable[Block] = ()) -> Reads:
    """Of these nodes, and of the templates they may call."""
    names: set[str] = set()
    functions: set[str] = set()
    everything = False
    called = [_operands(block.nodes, dot_is_row=False) for block in defined]
    for operand, dot_is_row in chain(_operands(nodes, dot_is_row=True), *called):
        match operand:
            case Field() if dot_is_row:
                names.add(operand.names[0])
            case Dot():
                everything |= dot_is_row
            case Variable() if operand.names[0] == "$":
                everything |= len(operand.names) == 1
                names.update(operand.names[1:2])
            case Identifier():
                functions.add(operand.name)
    labels = None if everything else frozenset(names)
    return Reads(labels, "__line__" in functions, "__timestamp__" in functions)


def _operands(nodes: Iterable[Node], *, dot_is_row: bool) -> Iterator[tuple[Operand, bool]]:
    for node in nodes:
        match node:
            case Action():
                yield from _inside(node.pipeline, dot_is_row)
            case Call():
                if node.pipeline is not None:
                    yield from _inside(node.pipeline, dot_is_row)
            case Branch():
                yield from _inside(node.pipeline, dot_is_row)
                yield from _operands(node.body.nodes, dot_is_row=dot_is_row and isinstance(node, If))
                if node.otherwise is not None:
                    yield from _operands(node.otherwise.nodes, dot_is_row=dot_is_row)


def _inside(operand: Operand, dot_is_row: bool) -> Iterator[tuple[Operand, bool]]:
    if isinstance(operand, Pipeline):
        for command in operand.commands:
            for word in command.words:
                yield from _inside(word, dot_is_row)
    elif isinstance(operand, Chain):
        yield from _inside(operand.of, dot_is_row)
    else:
        yield operand, dot_is_row


# << A template, taken apart once per query into pieces that can be worked on column by column.
# <<
# <<     "{{.app}}: {{.msg | upper}}"   →   Label(app), Plain(": "), Computed(.msg | upper)
# <<
# << A computed piece runs once per distinct combination of what it reads. Variables tie the rest of a
# << template
# << together: from the first declaration on it is one piece.


@dataclass(frozen=True, slots=True)
class Plain:
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class Computed:
    nodes: tuple[Node, ...]
    reads: Reads
    chain: ColumnChain | None = None
    """How to make the same text without a run of the template, where that is possible."""


Piece = Plain | Label | Computed


@dataclass(frozen=True, slots=True)
class Template:
    tree: Tree
    pieces: tuple[Piece, ...]
    reads: Reads


@lru_cache(maxsize=512)
def compiled(text: str, name: str = "line") -> Template:
    """`name` is what errors call it: `line` for `line_format`, `label` for `label_format`."""
    tree = parse(name, text, FUNCTIONS.keys())
    nodes, defined = tree.root.nodes, tree.defined.values()
    tied = next((at for at, node in enumerate(nodes) if _declares(node)), len(nodes))
    pieces = [_piece(node, tree) for node in nodes[:tied]]
    if tied < len(nodes):
        pieces.append(Computed(nodes[tied:], reads_of(nodes[tied:], defined)))
    return Template(tree, tuple(pieces), reads_of(nodes, defined))


def _piece(node: Node, tree: Tree) -> Piece:
    if isinstance(node, Text):
        return Plain(node.value)
    if isinstance(node, Action) and (name := _only_field(node.pipeline)):
        return Label(name)
    chain = chain_of(node) if isinstance(node, Action) else None
    return Computed((node,), reads_of((node,), tree.defined.values()), chain)


def _only_field(pipeline: Pipeline) -> str | None:
    words = pipeline.commands[0].words
    if len(pipeline.commands) > 1 or len(words) > 1 or not isinstance(words[0], Field):
        return None
    return words[0].names[0] if len(words[0].names) == 1 else None


def _declares(node: Node) -> bool:
    if isinstance(node, Action | Call):
        return node.pipeline is not None and _declares_inside((node.pipeline,))
    return False


def _declares_inside(operands: Iterable[Operand]) -> bool:
    for operand in operands:
        if isinstance(operand, ast.Chain) and _declares_inside((operand.of,)):
            return True
        if isinstance(operand, Pipeline) and (
            operand.variables or any(_declares_inside(command.words) for command in operand.commands)
        ):
            return True
    return False
