"""A template that failed on a row: Go's message, which becomes `__error_details__`."""

from __future__ import annotations

from typing import Any

from lakerunner_query.lang.gotemplate.ast import Tree


class ExecutionError(Exception):
    """`template: line:1:2: executing "line" at <.foo>: …`; the column counts bytes from 0."""

    def __init__(self, tree: Tree, node: Any, name: str, message: str) -> None:
        before = tree.text[: node.position]
        line = before.rpartition("\n")[2]
        column = len(line.encode("utf-8", "surrogateescape"))
        place = f"{tree.name}:{before.count(chr(10)) + 1}:{column}"
        super().__init__(f'template: {place}: executing "{name}" at <{node}>: {message}')
