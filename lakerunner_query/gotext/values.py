"""Go's values as a template sees them, and Go's names of their types.

    string str · bool bool · int int · int64 Int64 · float64 float · map[string]interface {} dict
    []interface {} list · map[string]string Labels · nil None · interface {} Interface

Strings are runs of bytes in Go: bytes outside UTF-8 are kept as surrogates (`surrogateescape`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakerunner_query.gotext.template.ast import Tree


class ExecutionError(Exception):
    """A template failed on a row: `template: line:1:2: executing "line" at <.foo>: …`.

    The column counts bytes from 0.
    """

    def __init__(self, tree: Tree, node: Any, name: str, message: str) -> None:
        before = tree.text[: node.position]
        line = before.rpartition("\n")[2]
        column = len(line.encode("utf-8", "surrogateescape"))
        place = f"{tree.name}:{before.count(chr(10)) + 1}:{column}"
        super().__init__(f'template: {place}: executing "{name}" at <{node}>: {message}')


class TemplateError(Exception):
    """A call failed; the message is the part that Go puts behind `error calling name: `."""


class Int64(int):
    """A 64-bit integer."""

    __slots__ = ()


class Int32(int):
    """A 32-bit integer; also a character constant, which Go calls a rune."""

    __slots__ = ()


class Uint8(int):
    """One byte of a string."""

    __slots__ = ()


class Labels(dict[str, str]):
    """The labels of a row, which the dot is at the start."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Interface:
    """A value from JSON, before a pipeline opens its interface; None is a nil inside."""

    value: Any


_NAMES = {
    str: "string",
    bool: "bool",
    int: "int",
    Int64: "int64",
    Int32: "int32",
    Uint8: "uint8",
    float: "float64",
    complex: "complex128",
    dict: "map[string]interface {}",
    Labels: "map[string]string",
    list: "[]interface {}",
    Interface: "interface {}",
}


def type_name(value: Any) -> str:
    return _NAMES.get(type(value)) or str(type(value).go_name)


def basic_kind(value: Any) -> str:
    """Return the kind that comparisons distinguish; empty for what they cannot compare."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "uint" if isinstance(value, Uint8) else "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "string"
    return "complex" if isinstance(value, complex) else ""


def unbox(value: Any) -> Any:
    return value.value if isinstance(value, Interface) else value


def is_true(value: Any) -> bool:
    """Tell a value's truth: zero and empty values are false; a time never is."""
    value = unbox(value)
    if value is None:
        return False
    if isinstance(value, bool | int | float | complex | str | list | dict):
        return bool(value)
    return True


def size(text: str) -> int:
    """Return the length in bytes, as Go counts."""
    return len(text) if text.isascii() else len(to_bytes(text))


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def from_bytes(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def wrap_int64(value: int) -> int:
    """Wrap to two's complement in 64 bits: Go's integers overflow silently."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


ANY, VALUE, STRING, INT, FLOAT, TIME = (
    *("interface {}", "reflect.Value"),
    *("string", "int", "float64", "time.Time"),
)
DURATION = "time.Duration"


@dataclass(frozen=True, slots=True)
class Row:
    """The facts about a row that functions know beside its labels."""

    line: str
    ns: int
    now_ns: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function that templates may call.

    function("trunc", trunc, "int", "string")          trunc(int, string)
    function("add", add, rest="interface {}")          add(...interface {})
    """

    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    rest: str | None = None
    """Type of all arguments behind the parameters; None: there may be none."""
    takes_row: bool = False
    """The row is the first argument, before those of the template."""
    unusable: str = ""
    """Reason why no template can call it, though Go has it."""

    def type_of(self, position: int) -> str:
        if position < len(self.parameters):
            return self.parameters[position]
        return self.rest or ANY


def function(name: str, call: Callable[..., Any], *parameters: str, rest: str | None = None) -> Function:
    return Function(name, call, parameters, rest)


@dataclass(frozen=True, slots=True)
class Library:
    """The functions a template may call, and the methods of the values it handles."""

    functions: Mapping[str, Function]
    methods: Mapping[type, Mapping[str, Function]]
