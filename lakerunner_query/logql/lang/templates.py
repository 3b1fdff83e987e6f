"""Templates of `line_format` and `label_format`: their functions, and what of a row they read.

    {{.app}} {{if eq .level "error"}}{{__line__}}{{end}}   reads labels app and level, and the line

A dot that is used as a whole (`{{.}}`, `{{index . "x"}}`, `{{template "t" .}}`) reads all labels. Inside
`with` and `range` the dot is something else, and `$` is still the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from lakerunner_query.errors import TemplateSyntaxError
from lakerunner_query.gotext.template.ast import (
    Action,
    Block,
    Branch,
    Call,
    Chain,
    Dot,
    Field,
    Identifier,
    If,
    Node,
    Operand,
    Pipeline,
    Text,
    Tree,
    Variable,
)
from lakerunner_query.gotext.template.parser import parse

TEMPLATE_FUNCTIONS = frozenset(
    (
        *("Replace", "ToLower", "ToUpper", "Trim", "TrimLeft", "TrimPrefix", "TrimRight", "TrimSpace"),
        *("TrimSuffix", "__line__", "__timestamp__", "add", "addf", "alignLeft", "alignRight", "and"),
        *("b64dec", "b64enc", "bytes", "call", "ceil", "contains", "count", "date", "default", "div"),
        *("divf", "duration", "duration_seconds", "eq", "float64", "floor", "fromJson", "ge", "gt"),
        *("hasPrefix", "hasSuffix", "html", "indent", "index", "int", "js", "le", "len", "lower", "lt"),
        *("max", "maxf", "min", "minf", "mod", "mul", "mulf", "ne", "nindent", "not", "now", "or"),
        *("print", "printf", "println", "regexReplaceAll", "regexReplaceAllLiteral", "repeat"),
        *("replace", "round", "slice", "sub", "subf", "substr", "title", "toDate", "toDateInZone"),
        *("trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "unixEpoch", "unixEpochMillis"),
        *("unixEpochNanos", "unixToTime", "upper", "urldecode", "urlencode", "urlquery"),
    )
)
"""Names only: `logql/templates/functions.py` implements them, and a test compares the two."""
LINE_FUNCTION = "__line__"


@dataclass(frozen=True, slots=True)
class TemplateReads:
    """Parts of a row that a template looks at: equal ones are rendered once, others are not read."""

    labels: frozenset[str] | None
    """None: all of them."""
    line: bool = False
    time: bool = False


@lru_cache(512)
def template_tree(text: str, name: str) -> Tree:
    """Parse a template; `name` is what errors call it: `line` or `label`."""
    return parse(name, text, TEMPLATE_FUNCTIONS)


def template_fault(text: str, name: str, subject: str) -> str:
    """Return why the template cannot be parsed, or nothing."""
    if "{{" not in text:
        return ""
    try:
        template_tree(text, name)
    except TemplateSyntaxError as error:
        return f"{subject}: {error.message}"
    return ""


def template_labels(text: str, name: str) -> frozenset[str] | None:
    """Return the labels that the template reads, None for all."""
    tree = template_tree(text, name)
    return reads_of(tree.root.nodes, tree.defined.values()).labels


def runs_per_value(text: str, name: str) -> bool:
    """Tell whether the template is more than plain text and labels."""
    nodes = template_tree(text, name).root.nodes
    return any(not isinstance(node, Text) and label_of(node) is None for node in nodes)


def label_of(node: Node) -> str | None:
    """Return the label of an action that is nothing but `{{.label}}`."""
    if not isinstance(node, Action) or declares_variable(node):
        return None
    commands = node.pipeline.commands
    words = commands[0].words
    if len(commands) > 1 or len(words) > 1 or not isinstance(words[0], Field):
        return None
    return words[0].names[0] if len(words[0].names) == 1 else None


def declares_variable(node: Node) -> bool:
    if isinstance(node, Action | Call):
        return node.pipeline is not None and _declares_inside((node.pipeline,))
    return False


def _declares_inside(operands: Iterable[Operand]) -> bool:
    for operand in operands:
        if isinstance(operand, Chain) and _declares_inside((operand.of,)):
            return True
        if isinstance(operand, Pipeline) and (
            operand.variables or any(_declares_inside(command.words) for command in operand.commands)
        ):
            return True
    return False


def reads_of(nodes: Iterable[Node], defined: Iterable[Block] = ()) -> TemplateReads:
    """Collect what these nodes read, and the templates that they may call."""
    names: set[str] = set()
    functions: set[str] = set()
    reads_all = False
    called = [_operands(block.nodes, dot_is_row=False) for block in defined]
    for operand, dot_is_row in chain(_operands(nodes, dot_is_row=True), *called):
        match operand:
            case Field() if dot_is_row:
                names.add(operand.names[0])
            case Dot():
                reads_all |= dot_is_row
            case Variable() if operand.names[0] == "$":
                reads_all |= len(operand.names) == 1
                names.update(operand.names[1:2])
            case Identifier():
                functions.add(operand.name)
    labels = None if reads_all else frozenset(names)
    return TemplateReads(labels, LINE_FUNCTION in functions, "__timestamp__" in functions)


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
