"""What of a row a template looks at, so that nothing else is read and equal inputs are rendered once.

    {{.app}} {{if eq .level "error"}}{{__line__}}{{end}}   →   labels app and level, the line

A dot that is used as a whole (`{{.}}`, `{{index . "x"}}`, `{{template "t" .}}`) reads all labels. Inside
`with` and `range` the dot is something else, and `$` is still the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

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
    Variable,
)


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
