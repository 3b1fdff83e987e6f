"""A template runs for one row, in the order and with the checks of Go.

The current node is recorded on the way: Go's errors name it, and `__error_details__` repeats the name.
"""

from __future__ import annotations

from typing import Any

from lakerunner_query.gotext.fmt import sort_by_bytes
from lakerunner_query.gotext.fmt_print import print_value
from lakerunner_query.gotext.limits import DEPTH, Budget, allow_text
from lakerunner_query.gotext.template.ast import (
    Action,
    Block,
    Branch,
    Break,
    Call,
    Continue,
    If,
    Node,
    Range,
    Text,
    Tree,
    With,
)
from lakerunner_query.gotext.template.operands import Operands
from lakerunner_query.gotext.values import Interface, Labels, Library, Row, is_true, unbox


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


class Execution(Operands):
    """One run of a template."""

    def __init__(self, tree: Tree, dot: Any, row: Row, budget: Budget, library: Library) -> None:
        super().__init__(tree, dot, row, budget, library)
        self._parts: list[str] = []
        self._size = 0

    def run(self, nodes: tuple[Node, ...]) -> str:
        self._walk_all(self.root, nodes)
        return "".join(self._parts)

    def _write(self, text: str) -> None:
        self._size += len(text)
        allow_text(self._size)
        self._parts.append(text)

    def _walk_all(self, dot: Any, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self._walk(dot, node)

    def _walk(self, dot: Any, node: Node) -> None:
        self.at(node)
        match node:
            case Text():
                self._write(node.value)
            case Action():
                value = self.pipeline(dot, node.pipeline)
                if not node.pipeline.variables:
                    self.at(node)
                    self._write(print_value(value))
            case Range():
                self._range(dot, node)
            case If() | With():
                self._branch(dot, node)
            case Call():
                self._call(dot, node)
            case Break():
                raise _BreakError
            case Continue():
                raise _ContinueError

    def _branch(self, dot: Any, node: Branch) -> None:
        declared = len(self.variables)
        value = self.pipeline(dot, node.pipeline)
        if is_true(value):
            self._walk_all(value if isinstance(node, With) else dot, node.body.nodes)
        elif node.otherwise is not None:
            self._walk_all(dot, node.otherwise.nodes)
        del self.variables[declared:]

    def _range(self, dot: Any, node: Range) -> None:
        declared = len(self.variables)
        value = unbox(self.pipeline(dot, node.pipeline))
        pairs = self._pairs(value, node)
        try:
            ran = self._iterate(pairs, node)
        except _BreakError:
            ran = True
        if not ran and node.otherwise is not None:
            self._walk_all(dot, node.otherwise.nodes)
        del self.variables[declared:]

    def _pairs(self, value: Any, node: Range) -> Any:
        """Return keys and values lazily: a range over a number may be long."""
        if value is None:
            return ()
        if isinstance(value, Labels):
            return ((key, value[key]) for key in sort_by_bytes(value))
        if isinstance(value, dict):
            return ((key, Interface(value[key])) for key in sort_by_bytes(value))
        if isinstance(value, list):
            is_json = type(value) is list  # other lists know the type of their items
            return ((at, Interface(item) if is_json else item) for at, item in enumerate(value))
        if isinstance(value, int) and not isinstance(value, bool):
            if len(node.pipeline.variables) > 1:
                raise self.failure(f"can't use {print_value(value)} to iterate over more than one variable")
            kind = type(value)
            return ((None, kind(at)) for at in range(value))
        raise self.failure(f"range can't iterate over {print_value(value)}")

    def _iterate(self, pairs: Any, node: Range) -> bool:
        ran = False
        inside = len(self.variables)
        for key, value in pairs:
            ran = True
            self.budget.step()
            self._bind(node, key, value)
            try:
                self._walk_all(value, node.body.nodes)
            except _ContinueError:
                pass
            finally:
                del self.variables[inside:]
        return ran

    def _bind(self, node: Range, key: Any, value: Any) -> None:
        """Set the variables of a range: the only one is the value; of two, the first is the key."""
        names = [variable.names[0] for variable in node.pipeline.variables]
        items = (key, value)[-len(names) :] if names else ()
        if node.pipeline.assigns:
            for name, item in zip(names, items, strict=True):
                self.assign(name, item)
        else:
            first = len(self.variables) - len(names)
            self.variables[first:] = zip(names, items, strict=True)

    def _call(self, dot: Any, node: Call) -> None:
        body: Block | None = self.tree.defined.get(node.name)
        if body is None and node.name == self.tree.name:
            body = self.tree.root
        if body is None:
            raise self.failure(f'template "{node.name}" not defined')
        if self.depth >= DEPTH:
            raise self.failure(f"exceeded maximum template depth ({DEPTH})")
        given = self.pipeline(dot, node.pipeline) if node.pipeline else None
        outside, name = self.variables, self.name
        self.variables, self.name = [("$", given)], node.name
        self.depth += 1
        self._walk_all(given, body.nodes)
        self.depth -= 1
        self.variables, self.name = outside, name
