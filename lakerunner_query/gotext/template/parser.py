"""Parses a template into a tree, with Go's rules and Go's error messages.

    {{if .a}}x{{else}}{{.b | upper}}{{end}}   →   If(.a, [Text x], [Action(.b | upper)])

The caller names the functions: an unknown one is an error here, not when a line is formatted.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from lakerunner_query.gotext.strconv import UnquoteError, quote, unquote
from lakerunner_query.gotext.template import ast as t
from lakerunner_query.gotext.template.ast import (
    Action,
    Block,
    Break,
    Call,
    Continue,
    If,
    Node,
    Pipeline,
    Range,
    Text,
    Token,
    Tree,
    With,
)
from lakerunner_query.gotext.template.pipelines import PipelineParser

_BRANCHES: dict[str, type[If | With | Range]] = {"if": If, "with": With, "range": Range}
_MAX_NESTING = 50
"""Depth of blocks in blocks; each takes a few frames of Python's stack, here and when the template runs."""


def parse(name: str, text: str, functions: AbstractSet[str]) -> Tree:
    """Parse `text`; errors call the template `name`."""
    parser = Parser(name, text, functions)
    return Tree(name, text, parser.whole(), parser.defined)


class Parser(PipelineParser):
    """The parser of blocks and definitions."""

    def __init__(self, name: str, text: str, functions: AbstractSet[str]) -> None:
        super().__init__(name, text, functions)
        self.defined: dict[str, Block] = {}
        self._loops = 0
        self._nesting = 0

    def whole(self) -> Block:
        nodes: list[Node] = []
        while (token := self.peek()).kind != t.END:
            if token.kind == t.LEFT and self._starts_definition():
                self._definition()
                continue
            node = self._text_or_action()
            if isinstance(node, Token):
                self.fail(f"unexpected {_shown(node)}")
            nodes.append(node)
        return Block(0, tuple(nodes))

    def _starts_definition(self) -> bool:
        brace = self.next()
        if self.next_word().kind == "define":
            return True
        self.back(brace)
        return False

    def _definition(self) -> None:
        context = "define clause"
        name = self._template_name(self.next_word(), context)
        self.expect(t.RIGHT, context)
        self._define(name, context)

    def _define(self, name: str, context: str) -> None:
        """Parse the body of a template of its own, which sees no variables from outside."""
        outside, self.variables = self.variables, ["$"]
        loops, self._loops = self._loops, 0
        body, end = self._block()
        self.variables, self._loops = outside, loops
        if end.kind != "end":
            self.fail(f"unexpected {_shown(end)} in {context}")
        if not _is_empty(self.defined.get(name)):
            if not _is_empty(body):
                self.fail(f"template: multiple definition of template {quote(name)}")
            return
        self.defined[name] = body

    def _block(self) -> tuple[Block, Token]:
        """Parse nodes up to an `end` or `else`, and return that too."""
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            self.fail(f"blocks are nested deeper than {_MAX_NESTING}")
        start = self.peek_word().position
        nodes: list[Node] = []
        while True:
            if self.peek_word().kind == t.END:
                self.fail("unexpected EOF")
            node = self._text_or_action()
            if isinstance(node, Token):
                self._nesting -= 1
                return Block(start, tuple(nodes)), node
            nodes.append(node)

    def _text_or_action(self) -> Node | Token:
        token = self.next_word()
        if token.kind == t.TEXT:
            return Text(token.position, token.text)
        if token.kind != t.LEFT:
            self.unexpected(token, "input")
        self.action_line = token.line
        try:
            return self._action()
        finally:
            self.action_line = 0

    def _action(self) -> Node | Token:
        token = self.next_word()
        if token.kind in {"end", "else"}:
            return self._ending(token)
        if token.kind in _BRANCHES:
            return self._branch(token.kind)
        if token.kind in {"break", "continue"}:
            return self._jump(token)
        if token.kind in {"template", "block"}:
            return self._call(token.kind)
        self.back()
        pipeline = self.pipeline("command", t.RIGHT)
        return Action(token.position, pipeline)

    def _ending(self, token: Token) -> Token:
        if token.kind == "else" and (following := self.peek_word()).kind in {"if", "with"}:
            return Token("else", "else", following.position, following.line)
        self.expect(t.RIGHT, token.kind)
        return token

    def _jump(self, token: Token) -> Node:
        shown = "{{" + token.kind + "}}"
        closing = self.next_word()
        if closing.kind != t.RIGHT:
            self.unexpected(closing, shown)
        if not self._loops:
            self.fail(f"{shown} outside {{{{range}}}}")
        return Break(token.position) if token.kind == "break" else Continue(token.position)

    def _branch(self, word: str) -> If | With | Range:
        declared = len(self.variables)
        pipeline = self.pipeline(word, t.RIGHT)
        self._loops += word == "range"
        body, end = self._block()
        self._loops -= word == "range"
        otherwise = self._otherwise(word, end) if end.kind == "else" else None
        del self.variables[declared:]
        return _BRANCHES[word](pipeline.position, pipeline, body, otherwise)

    def _otherwise(self, word: str, end: Token) -> Block:
        if word in {"if", "with"} and self.peek().kind == word:
            self.next()
            self._nesting += 1
            chained = self._branch(word)
            self._nesting -= 1
            return Block(end.position, (chained,))
        otherwise, last = self._block()
        if last.kind != "end":
            self.fail(f"expected end; found {_shown(last)}")
        return otherwise

    def _call(self, word: str) -> Call:
        context = f"{word} clause"
        token = self.next_word()
        name = self._template_name(token, context)
        pipeline: Pipeline | None = None
        if word == "block":
            pipeline = self.pipeline(context, t.RIGHT)
            self._define(name, context)
        elif self.next_word().kind != t.RIGHT:
            self.back()
            pipeline = self.pipeline(context, t.RIGHT)
        return Call(token.position, name, pipeline)

    def _template_name(self, token: Token, context: str) -> str:
        if token.kind not in {t.STRING, t.RAW_STRING}:
            self.unexpected(token, context)
        try:
            return unquote(token.text)
        except UnquoteError as error:
            self.fail(str(error))


def _shown(ending: Token) -> str:
    return "{{" + ending.kind + "}}"


def _is_empty(block: Block | None) -> bool:
    return block is None or all(isinstance(node, Text) and not node.value.strip() for node in block.nodes)
