"""Tokens and syntax tree of a Go template; `str(node)` is the text that Go quotes in its errors.

Positions count characters from the start of the whole template. Nodes compare by identity: two equal actions
at two places are two nodes, and evaluation keeps facts about each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakerunner_query.gotext.strconv import quote

ERROR, END, TEXT, LEFT, RIGHT = "error", "EOF", "text", "{{", "}}"
SPACE, FIELD, VARIABLE, IDENTIFIER, DOT = "space", "field", "variable", "identifier", "."
STRING, RAW_STRING, CHARACTER, NUMBER, COMPLEX = "string", "raw string", "character", "number", "complex"
BOOL, NIL, PIPE, DECLARE, ASSIGN, OPEN, CLOSE, CHAR = "bool", "nil", "|", ":=", "=", "(", ")", "char"
KEYWORDS = frozenset(
    {"block", "break", "continue", "define", "else", "end", "if", "range", "template", "with", NIL}
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a template."""

    kind: str
    """One of the kinds above, or a keyword."""
    text: str
    position: int
    line: int

    @property
    def is_keyword(self) -> bool:
        return self.kind in KEYWORDS

    def __str__(self) -> str:
        """Return the form that Go's errors show."""
        if self.kind in {END, ERROR}:
            return self.text
        if self.is_keyword or self.kind == DOT:
            return f"<{self.text}>"
        return quote(self.text[:10]) + "..." if len(self.text.encode()) > 10 else quote(self.text)


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    position: int
    value: str

    def __str__(self) -> str:
        return quote(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Dot:
    position: int

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True, slots=True, eq=False)
class Nil:
    position: int

    def __str__(self) -> str:
        return "nil"


@dataclass(frozen=True, slots=True, eq=False)
class Bool:
    position: int
    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A constant without a type: any of these numbers, None where it cannot be that one."""

    position: int
    text: str
    integer: int | None = None
    unsigned: int | None = None
    floating: float | None = None
    complex: complex | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False)
class String:
    position: int
    quoted: str
    value: str

    def __str__(self) -> str:
        return self.quoted


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of the dot, `.a.b`."""

    position: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable and its fields, `$x.a.b`.

    The first name has its dollar; `$` alone is the argument of the template.
    """

    position: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Identifier:
    """The name of a function."""

    position: int
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Fields of something that is no field itself: `(…).a.b` and `now.Year`."""

    position: int
    of: Operand
    names: tuple[str, ...]

    def __str__(self) -> str:
        return _in_parentheses(self.of) + "".join(f".{name}" for name in self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    position: int
    words: tuple[Operand, ...]

    def __str__(self) -> str:
        return " ".join(map(_in_parentheses, self.words))


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Commands, each handing its value to the next as last argument: `$x := .a | upper`."""

    position: int
    commands: tuple[Command, ...]
    variables: tuple[Variable, ...] = ()
    assigns: bool = False
    """The variable is assigned (`=`), not declared (`:=`)."""

    def __str__(self) -> str:
        names = ", ".join(map(str, self.variables))
        declared = f"{names} {'=' if self.assigns else ':='} " if names else ""
        return declared + " | ".join(map(str, self.commands))


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    position: int
    pipeline: Pipeline

    def __str__(self) -> str:
        return "{{" + str(self.pipeline) + "}}"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Nodes one after another."""

    position: int
    nodes: tuple[Node, ...] = ()

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """The common shape of `if`, `with` and `range`."""

    position: int
    pipeline: Pipeline
    body: Block
    otherwise: Block | None = None
    word: str = field(default="", init=False)

    def __str__(self) -> str:
        tail = "" if self.otherwise is None else "{{else}}" + str(self.otherwise)
        return "{{" + f"{self.word} {self.pipeline}" + "}}" + str(self.body) + tail + "{{end}}"


@dataclass(frozen=True, slots=True, eq=False)
class If(Branch):
    word: str = field(default="if", init=False)


@dataclass(frozen=True, slots=True, eq=False)
class With(Branch):
    word: str = field(default="with", init=False)


@dataclass(frozen=True, slots=True, eq=False)
class Range(Branch):
    word: str = field(default="range", init=False)


@dataclass(frozen=True, slots=True, eq=False)
class Break:
    position: int

    def __str__(self) -> str:
        return "{{break}}"


@dataclass(frozen=True, slots=True, eq=False)
class Continue:
    position: int

    def __str__(self) -> str:
        return "{{continue}}"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a template, `{{template "name" .}}`."""

    position: int
    name: str
    pipeline: Pipeline | None

    def __str__(self) -> str:
        given = f" {self.pipeline}" if self.pipeline else ""
        return "{{template " + quote(self.name) + given + "}}"


Operand = Dot | Nil | Bool | Number | String | Field | Variable | Identifier | Chain | Pipeline
Node = Text | Action | If | With | Range | Break | Continue | Call


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole template: its own nodes, and the templates it defines by name."""

    name: str
    text: str
    root: Block
    defined: dict[str, Block]


def _in_parentheses(operand: Operand) -> str:
    return f"({operand})" if isinstance(operand, Pipeline) else str(operand)
