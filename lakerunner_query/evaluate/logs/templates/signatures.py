"""What a template's function takes: Go types of its parameters, and of those that may be any number.

function("trunc", trunc, "int", "string")          trunc(int, string)
function("add", add, rest="interface {}")          add(...interface {})
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ANY, VALUE, STRING, INT, FLOAT, TIME = (
    *("interface {}", "reflect.Value"),
    *("string", "int", "float64", "time.Time"),
)
DURATION = "time.Duration"


@dataclass(frozen=True, slots=True)
class Row:
    """What functions know of the row beside its labels."""

    line: str
    ns: int
    now_ns: int


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    rest: str | None = None
    """The type of all arguments behind the parameters; None: there may be none."""
    of_row: bool = False
    """The row comes first, before what the template gives."""
    unusable: str = ""
    """Why no template can call it, though Go has it."""

    def type_of(self, position: int) -> str:
        if position < len(self.parameters):
            return self.parameters[position]
        return self.rest or ANY


def function(name: str, call: Callable[..., Any], *parameters: str, rest: str | None = None) -> Function:
    return Function(name, call, parameters, rest)
