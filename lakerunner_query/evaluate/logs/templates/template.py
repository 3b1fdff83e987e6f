"""A template, taken apart once per query into pieces that can be worked on column by column.

    "{{.app}}: {{.msg | upper}}"   →   Label(app), Plain(": "), Computed(.msg | upper)

A computed piece runs once per distinct combination of what it reads. Variables tie the rest of a template
together: from the first declaration on it is one piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from lakerunner_query.evaluate.logs.templates.chains import Chain, chain_of
from lakerunner_query.evaluate.logs.templates.functions import FUNCTIONS
from lakerunner_query.evaluate.logs.templates.reads import Reads, reads_of
from lakerunner_query.gotext.template import ast
from lakerunner_query.gotext.template.ast import Action, Call, Field, Node, Operand, Pipeline, Text, Tree
from lakerunner_query.gotext.template.parser import parse


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
    chain: Chain | None = None
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
