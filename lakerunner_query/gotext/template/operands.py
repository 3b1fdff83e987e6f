"""Evaluates pipelines, commands and operands.

    .a | replace "-" "" | upper   →   field a of the dot, handed on as last argument, twice

A constant has no type until a function's parameter gives it one; a field of a nil is nil.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakerunner_query.gotext.limits import Budget
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
    Tree,
    Variable,
)
from lakerunner_query.gotext.template.builtins import LOGIC
from lakerunner_query.gotext.values import (
    ANY,
    FLOAT,
    INT,
    STRING,
    VALUE,
    ExecutionError,
    Function,
    Int32,
    Interface,
    Labels,
    Library,
    Row,
    TemplateError,
    is_true,
    type_name,
    unbox,
)

_MISSING = object()
"""Marker: no value comes down the pipeline."""
_KINDS = {INT: "integer", FLOAT: "float", STRING: "string"}


class Operands:
    """The state of a run: variables, the current node, and the row."""

    def __init__(self, tree: Tree, dot: Any, row: Row, budget: Budget, library: Library) -> None:
        self.tree = tree
        self.name = tree.name
        self.root = dot
        self.budget = budget
        self.depth = 0
        self.variables: list[tuple[str, Any]] = [("$", dot)]
        self._row = row
        self._library = library
        self._node: Any = tree.root

    def at(self, node: Any) -> None:
        self._node = node

    def failure(self, message: str) -> ExecutionError:
        return ExecutionError(self.tree, self._node, self.name, message)

    def assign(self, name: str, value: Any) -> None:
        for place in range(len(self.variables) - 1, -1, -1):
            if self.variables[place][0] == name:
                self.variables[place] = (name, value)
                return
        raise self.failure(f"undefined variable: {name}")

    def pipeline(self, dot: Any, pipeline: Pipeline) -> Any:
        self.at(pipeline)
        value: Any = _MISSING
        for command in pipeline.commands:
            self.budget.step()
            value = unbox(self._command(dot, command, value))
        for variable in pipeline.variables:
            if pipeline.assigns:
                self.assign(variable.names[0], value)
            else:
                self.variables.append((variable.names[0], value))
        return value

    def _command(self, dot: Any, command: Command, final: Any) -> Any:
        first, words = command.words[0], command.words
        match first:
            case Field():
                return self._field(dot, first, words, final)
            case Chain():
                return self._chain(dot, first, words, final)
            case Identifier():
                return self._function(dot, first, command, words, final)
            case Pipeline():
                self._no_arguments(words, final)
                return self.pipeline(dot, first)
            case Variable():
                return self._variable(dot, first, words, final)
        self.at(first)
        self._no_arguments(words, final)
        if isinstance(first, Nil):
            raise self.failure("nil is not a command")
        return dot if isinstance(first, Dot) else self._constant(first)

    def _no_arguments(self, words: tuple[Operand, ...], final: Any) -> None:
        if len(words) > 1 or final is not _MISSING:
            raise self.failure(f"can't give argument to non-function {words[0]}")

    def _constant(self, node: Bool | Number | String) -> Any:
        return self._ideal(node) if isinstance(node, Number) else node.value

    def _ideal(self, number: Number) -> Any:
        """Return a constant with the type that its spelling suggests."""
        self.at(number)
        text = number.text
        if number.complex is not None:
            return number.complex
        if text.startswith("'"):
            return Int32(number.integer or 0)
        hexadecimal = text.lstrip("+-")[:2].lower() == "0x"
        is_float = bool(set(text) & set(".pP" if hexadecimal else ".eEpP"))
        if number.floating is not None and is_float:
            return number.floating
        if number.integer is None:
            raise self.failure(f"{text} overflows int")
        return number.integer

    def _field(self, dot: Any, node: Field, words: tuple[Operand, ...], final: Any) -> Any:
        self.at(node)
        return self._fields(dot, dot, node, node.names, words, final)

    def _chain(self, dot: Any, node: Chain, words: tuple[Operand, ...], final: Any) -> Any:
        self.at(node)
        if isinstance(node.of, Nil):
            raise self.failure(f"indirection through explicit nil in {node}")
        receiver = self._argument(dot, None, node.of)
        return self._fields(dot, receiver, node, node.names, words, final)

    def _variable(self, dot: Any, node: Variable, words: tuple[Operand, ...], final: Any) -> Any:
        self.at(node)
        value = next(value for name, value in reversed(self.variables) if name == node.names[0])
        if len(node.names) > 1:
            return self._fields(dot, value, node, node.names[1:], words, final)
        if words:
            self._no_arguments(words, final)
        return value

    def _fields(
        self,
        dot: Any,
        receiver: Any,
        node: Any,
        names: tuple[str, ...],
        words: tuple[Operand, ...],
        final: Any,
    ) -> Any:
        for name in names[:-1]:
            receiver = self._field_of(dot, name, node, (), _MISSING, receiver)
        return self._field_of(dot, names[-1], node, words, final, receiver)

    def _field_of(
        self, dot: Any, name: str, node: Any, words: tuple[Operand, ...], final: Any, receiver: Any
    ) -> Any:
        if receiver is None:
            return None
        shown = type_name(receiver)
        receiver = unbox(receiver)
        if receiver is None:
            raise self.failure(f"nil pointer evaluating {shown}.{name}")
        method = self._library.methods.get(type(receiver), {}).get(name)
        if method is not None:
            bound = replace(method, call=lambda *given: method.call(receiver, *given))
            return self._invoke(dot, bound, node, words, final)
        if not isinstance(receiver, dict):
            raise self.failure(f"can't evaluate field {name} in type {shown}")
        if len(words) > 1 or final is not _MISSING:
            raise self.failure(f"{name} is not a method but has arguments")
        return receiver.get(name, "") if isinstance(receiver, Labels) else Interface(receiver.get(name))

    def _function(
        self, dot: Any, node: Identifier, command: Any, words: tuple[Operand, ...], final: Any
    ) -> Any:
        self.at(node)
        return self._invoke(dot, self._library.functions[node.name], command, words, final)

    def _invoke(self, dot: Any, function: Function, node: Any, words: tuple[Operand, ...], final: Any) -> Any:
        given = words[1:]
        self._count(function, len(given), final)
        if function.unusable:
            raise self.failure(function.unusable)
        if function.name in LOGIC:
            return self._logic(dot, function.name, given, final)
        arguments = [self._argument(dot, function.type_of(at), word) for at, word in enumerate(given)]
        if final is not _MISSING:
            arguments.append(self._check_type(final, function.type_of(len(given))))
        self.budget.read_texts(sum(len(one) for one in arguments if isinstance(one, str)))
        try:
            result = function.call(self._row, *arguments) if function.takes_row else function.call(*arguments)
        except TemplateError as error:
            self.at(node)
            callee = str(given[0]) if given else ""
            reason = str(error).replace("{callee}", callee) if function.name == "call" else str(error)
            raise self.failure(f"error calling {function.name}: {reason}") from error
        if isinstance(result, str):
            self.budget.make_text(len(result))
        return result

    def _count(self, function: Function, given: int, final: Any) -> None:
        wanted, got = len(function.parameters), given + (final is not _MISSING)
        if function.rest is None and got != wanted:
            raise self.failure(f"wrong number of args for {function.name}: want {wanted} got {got}")
        if got < wanted:
            raise self.failure(
                f"wrong number of args for {function.name}: want at least {wanted} got {given}"
            )

    def _logic(self, dot: Any, name: str, given: tuple[Operand, ...], final: Any) -> Any:
        value: Any = None
        for word in given:
            value = self._argument(dot, VALUE, word)
            if is_true(value) == LOGIC[name]:
                return value
        return value if final is _MISSING else final

    def _argument(self, dot: Any, wanted: str | None, node: Operand) -> Any:
        self.at(node)
        if isinstance(node, Nil):
            if wanted in {ANY, VALUE, None}:
                return None
            raise self.failure(f"cannot assign nil to {wanted}")
        if isinstance(node, Bool | Number | String):
            return self._literal(wanted, node)
        return self._check_type(self._looked_up(dot, node), wanted)

    def _looked_up(self, dot: Any, node: Dot | Field | Variable | Pipeline | Identifier | Chain) -> Any:
        match node:
            case Dot():
                return dot
            case Field():
                return self._field(dot, node, (node,), _MISSING)
            case Variable():
                return self._variable(dot, node, (), _MISSING)
            case Pipeline():
                return self.pipeline(dot, node)
            case Identifier():
                return self._function(dot, node, node, (), _MISSING)
            case Chain():
                return self._chain(dot, node, (), _MISSING)

    def _literal(self, wanted: str | None, node: Bool | Number | String) -> Any:
        if wanted in {ANY, VALUE, None}:
            return self._constant(node)
        match wanted, node:
            case "string", String():
                return node.value
            case "int" | "time.Duration", Number(integer=int()):
                return node.integer
            case "float64", Number(floating=float()):
                return node.floating
        if wanted in _KINDS:
            raise self.failure(f"expected {_KINDS[wanted]}; found {node}")
        if wanted == "time.Duration":
            raise self.failure(f"expected integer; found {node}")
        raise self.failure(f"can't handle {node} for arg of type {wanted}")

    def _check_type(self, value: Any, wanted: str | None) -> Any:
        """Return the value if a parameter of that type takes it."""
        if wanted in {ANY, VALUE, None}:
            return value if wanted != ANY else unbox(value)
        if value is None:
            raise self.failure(f"invalid value; expected {wanted}")
        opened = unbox(value)
        if opened is None:
            raise self.failure(f"wrong type for value; expected {wanted}; got interface {{}}")
        got = type_name(opened)
        if got != wanted:
            raise self.failure(f"wrong type for value; expected {wanted}; got {got}")
        return opened
