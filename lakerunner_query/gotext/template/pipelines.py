"""Parses the inside of an action: pipelines of commands, commands of operands.

    $x := .a | replace "-" "" | upper   →   Pipeline($x; [.a], [replace "-" ""], [upper])

The parser looks three tokens ahead, because a space is a token and `$x` may begin a declaration.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NoReturn

from lakerunner_query.errors import TemplateSyntaxError
from lakerunner_query.gotext.strconv import UnquoteError, quote, unquote
from lakerunner_query.gotext.template import ast as t
from lakerunner_query.gotext.template.ast import (
    Bool,
    Chain,
    Command,
    Dot,
    Field,
    Identifier,
    Nil,
    Number,
    Operand,
    Pipeline,
    String,
    Token,
    Variable,
)
from lakerunner_query.gotext.template.lexer import Lexer
from lakerunner_query.gotext.template.numbers import NumberError, constant

_OPERANDS = frozenset(
    {t.BOOL, t.CHARACTER, t.COMPLEX, t.DOT, t.FIELD, t.IDENTIFIER, t.NUMBER, t.NIL}
    | {t.RAW_STRING, t.STRING, t.VARIABLE, t.OPEN}
)
_MAX_PARENTHESES = 50
"""Depth of parentheses; Go allows 10,000, for which Python's stack is too small."""


class PipelineParser:
    """The parser of pipelines, with three tokens to look ahead."""

    def __init__(self, name: str, text: str, functions: AbstractSet[str]) -> None:
        self._name = name
        self._lexer = Lexer(text)
        self._functions = functions
        self._ahead: list[Token] = []
        """Tokens to come, the next one last."""
        self._last: list[Token] = []
        self._line = 1
        self._parentheses = 0
        self.variables = ["$"]
        self.action_line = 0

    def next(self) -> Token:
        if self._ahead:
            token = self._ahead.pop()
        else:
            token = self._lexer.next()
            self._line = token.line
        self._last = [token]
        return token

    def back(self, *before: Token) -> None:
        """Give back the last token of `next`, and in front of it these."""
        self._ahead += [*self._last, *reversed(before)]

    def peek(self) -> Token:
        token = self.next()
        self.back()
        return token

    def next_word(self) -> Token:
        """Return the next token that is no space."""
        token = self.next()
        while token.kind == t.SPACE:
            token = self.next()
        return token

    def peek_word(self) -> Token:
        token = self.next_word()
        self.back()
        return token

    def expect(self, kind: str, context: str) -> Token:
        token = self.next_word()
        if token.kind != kind:
            self.unexpected(token, context)
        return token

    def fail(self, reason: str) -> NoReturn:
        raise TemplateSyntaxError(self._name, self._line, reason)

    def unexpected(self, token: Token, context: str) -> NoReturn:
        if token.kind != t.ERROR:
            self.fail(f"unexpected {token} in {context}")
        started = ""
        if self.action_line not in {0, token.line}:
            started = f" in action started at {self._name}:{self.action_line}"
            if token.text.endswith(" action"):
                started = started.removeprefix(" in action")
        self.fail(token.text + started)

    def pipeline(self, context: str, end: str) -> Pipeline:
        position = self.peek_word().position
        variables, assigns = self._declarations(context)
        commands: list[Command] = []
        while (token := self.next_word()).kind != end:
            if token.kind not in _OPERANDS:
                self.unexpected(token, context)
            self.back()
            commands.append(self._command())
        self._check(commands, context)
        return Pipeline(position, tuple(commands), tuple(variables), assigns)

    def _declarations(self, context: str) -> tuple[list[Variable], bool]:
        """Parse `$x :=`, `$x =` and, of a range, `$k, $v :=`."""
        declared: list[Variable] = []
        while (name := self.peek_word()).kind == t.VARIABLE:
            self.next_word()
            behind = self.peek()
            following = self.peek_word()
            comma = following.kind == t.CHAR and following.text == ","
            if following.kind not in {t.ASSIGN, t.DECLARE} and not comma:
                self._give_back(name, behind)
                break
            self.next_word()
            declared.append(Variable(name.position, tuple(name.text.split("."))))
            self.variables.append(name.text)
            if not comma:
                return declared, following.kind == t.ASSIGN
            self._check_comma(context, len(declared))
        return declared, False

    def _give_back(self, name: Token, behind: Token) -> None:
        self._ahead += [behind, name] if behind.kind == t.SPACE else [name]

    def _check_comma(self, context: str, declared: int) -> None:
        if context != "range" or declared > 1:
            self.fail(f"too many declarations in {context}")
        if self.peek_word().kind not in {t.VARIABLE, t.RIGHT, t.CLOSE}:
            self.fail("range can only initialize variables")

    def _check(self, commands: list[Command], context: str) -> None:
        if not commands:
            self.fail(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], start=2):
            if isinstance(command.words[0], Bool | Dot | Nil | Number | String):
                self.fail(f"non executable command in pipeline stage {stage}")

    def _command(self) -> Command:
        position = self.peek_word().position
        words: list[Operand] = []
        while True:
            self.peek_word()
            operand = self._operand()
            if operand is not None:
                words.append(operand)
            token = self.next()
            if token.kind == t.SPACE:
                continue
            if token.kind in {t.RIGHT, t.CLOSE}:
                self.back()
            elif token.kind != t.PIPE:
                self.unexpected(token, "operand")
            break
        if not words:
            self.fail("empty command")
        return Command(position, tuple(words))

    def _operand(self) -> Operand | None:
        term = self._term()
        if term is None or self.peek().kind != t.FIELD:
            return term
        position = self.peek().position
        names: list[str] = []
        while self.peek().kind == t.FIELD:
            names.append(self.next().text[1:])
        if isinstance(term, Field):
            return Field(position, (*term.names, *names))
        if isinstance(term, Variable):
            return Variable(position, (*term.names, *names))
        if isinstance(term, Bool | String | Number | Nil | Dot):
            self.fail(f"unexpected . after term {quote(str(term))}")
        return Chain(position, term, tuple(names))

    def _term(self) -> Operand | None:
        token = self.next_word()
        at, text = token.position, token.text
        if token.kind == t.IDENTIFIER:
            if text not in self._functions:
                self.fail(f"function {quote(text)} not defined")
            return Identifier(at, text)
        if token.kind == t.VARIABLE:
            return self._check_declared(Variable(at, tuple(text.split("."))))
        if token.kind == t.FIELD:
            return Field(at, (text[1:],))
        if token.kind == t.OPEN:
            return self._nested_pipeline()
        if token.kind in {t.CHARACTER, t.COMPLEX, t.NUMBER, t.STRING, t.RAW_STRING}:
            return self._literal(token)
        simple: dict[str, Operand] = {t.DOT: Dot(at), t.NIL: Nil(at), t.BOOL: Bool(at, text == "true")}
        if token.kind not in simple:
            self.back()
        return simple.get(token.kind)

    def _check_declared(self, variable: Variable) -> Variable:
        if variable.names[0] not in self.variables:
            self.fail(f"undefined variable {quote(variable.names[0])}")
        return variable

    def _nested_pipeline(self) -> Pipeline:
        if self._parentheses >= _MAX_PARENTHESES:
            self.fail("max expression depth exceeded")
        self._parentheses += 1
        inside = self.pipeline("parenthesized pipeline", t.CLOSE)
        self._parentheses -= 1
        return inside

    def _literal(self, token: Token) -> Operand:
        try:
            if token.kind in {t.STRING, t.RAW_STRING}:
                return String(token.position, token.text, unquote(token.text))
            return constant(token.position, token.text, token.kind)
        except (UnquoteError, NumberError) as error:
            self.fail(str(error))
