"""YAML is read into nodes that know their lines, as Go's yaml.v3 reads it.

    labels: &all            Mapping of line 1, with Text("severity"): Text("page") of line 2
      severity: page
    more: {<<: *all, a: 1}  keys merged from another mapping, which its own keys override

All faults of a document are gathered: `line 3: field owner not found in type rulefmt.RuleGroup`. Texts may be
numbers or booleans, which stay as they are written; `null` is the same as nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import yaml

MAX_DEPTH = 100
MAX_NODES = 1_000_000
"""Nodes that are read, counted each time that an alias leads to them."""
MAX_NUMBER = 1 << 63
_PLAIN = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), "!!null"),
    **dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), "!!bool"),
    "<<": "!!merge",
}
"""Tags of plain scalars by their text."""
_INT = re.compile(r"[-+]?(?:0b[01_]++|0o?[0-7_]++|0x[0-9a-fA-F_]++|[0-9][0-9_]*+)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?+)(?:[eE][-+]?[0-9]++)?+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_TIME = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[Tt ].*+)?+")
_SHAPES = {"!!int": _INT, "!!float": _FLOAT, "!!timestamp": _TIME}
_SHORT = 10
"""Characters of a value that errors show in full."""
_OURS = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of a file, at a line from 1; 0 where there is none."""

    line: int
    message: str
    column: int = field(default=0, compare=False)

    def placed(self, file: str) -> str:
        """Show the fault with file, line and column.

        >>> Fault(3, "too long", 7).placed("a.yaml")
        'a.yaml:3:7: too long'
        """
        return f"{file}:{self.line}:{self.column}: {self.message}"

    def at(self, file: str = "") -> str:
        """Show the fault with its place.

        >>> Fault(3, "too long").at("a.yaml"), Fault(3, "too long").at()
        ('a.yaml:3: too long', 'line 3: too long')
        """
        places = (file, str(self.line) if file else f"line {self.line}") if self.line else (file,)
        return ":".join(filter(None, places)) + f": {self.message}"


class YamlError(ValueError):
    """The text is no YAML."""

    def __init__(self, line: int, problem: str, column: int = 0) -> None:
        super().__init__(f"yaml: line {line}: {problem}")
        self.fault = Fault(line, f"yaml: {problem}", column)


@dataclass(slots=True)
class Node:
    """Any node; the shape of YAML decides which of the lists is used."""

    tag: str
    """Short tag such as `!!str`, `!!seq`."""
    line: int
    value: str = ""
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)
    column: int = field(default=0, compare=False)
    """Column from 1."""

    @property
    def is_scalar(self) -> bool:
        return self.tag not in {"!!seq", "!!map"}

    @property
    def is_null(self) -> bool:
        return self.tag == "!!null"

    def shown(self) -> str:
        """Name tag and value as errors of yaml.v3 do."""
        if not self.is_scalar:
            return self.tag
        value = self.value if len(self.value) <= _SHORT else self.value[: _SHORT - 3] + "..."
        return f"{self.tag} `{value}`"


def compose(text: bytes) -> list[Node]:
    """Return the documents of a text, or raise `YamlError`."""
    try:
        return list(_documents(iter(yaml.parse(text, Loader=yaml.CSafeLoader))))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlError(line, error.problem or "not YAML", column) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count(b"\n") + 1
        raise YamlError(line, error.reason) from error


def _documents(events: Iterator[yaml.Event]) -> Iterator[Node]:
    anchors: dict[str, Node] = {}
    open_nodes: list[Node] = []
    waiting: list[Node | None] = []
    """Key of each open mapping whose value is yet to come."""
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            anchors = {}
            continue
        if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            node = open_nodes.pop()
            waiting.pop()
            if not open_nodes:
                yield node
            continue
        found = _node_of(event, line, anchors, open_nodes)
        if found is None:
            continue
        _attach(found, open_nodes, waiting)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_nodes) == MAX_DEPTH:
                raise YamlError(line, f"nested more than {MAX_DEPTH} levels deep")
            open_nodes.append(found)
            waiting.append(None)
        elif not open_nodes:
            yield found


def _node_of(event: yaml.Event, line: int, anchors: dict[str, Node], open_nodes: list[Node]) -> Node | None:
    """Return the node that an event begins; events around documents begin none."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise YamlError(line, f"unknown anchor '{event.anchor}' referenced")
        if any(anchors[event.anchor] is one for one in open_nodes):
            raise YamlError(line, f"anchor '{event.anchor}' value contains itself")
        return anchors[event.anchor]
    if isinstance(event, yaml.ScalarEvent):
        node = Node(_tag_of(event), line, event.value)
    elif isinstance(event, yaml.SequenceStartEvent):
        node = Node("!!seq", line)
    elif isinstance(event, yaml.MappingStartEvent):
        node = Node("!!map", line)
    else:
        return None
    node.column = event.start_mark.column + 1
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


def _attach(node: Node, open_nodes: list[Node], waiting: list[Node | None]) -> None:
    if not open_nodes:
        return
    parent = open_nodes[-1]
    if parent.tag == "!!seq":
        parent.items.append(node)
        return
    key = waiting[-1]
    if key is None:
        waiting[-1] = node
    else:
        parent.pairs.append((key, node))
        waiting[-1] = None


def _tag_of(event: yaml.ScalarEvent) -> str:
    if event.tag and event.tag != "!":
        return f"!!{event.tag[len(_OURS) :]}" if event.tag.startswith(_OURS) else str(event.tag)
    if not event.implicit[0]:
        return "!!str"
    if event.value in _PLAIN:
        return _PLAIN[event.value]
    return next((tag for tag, shape in _SHAPES.items() if shape.fullmatch(event.value)), "!!str")


class Reading:
    """One pass over a document, which gathers its faults."""

    def __init__(self, duration: Callable[[str], int]) -> None:
        """Take the reader of durations, in ns: every language has its own."""
        self.duration = duration
        self.faults: list[Fault] = []
        self._left = MAX_NODES

    def fault(self, line: int, message: str) -> None:
        self.faults.append(Fault(line, message))

    def fault_at(self, node: Node, message: str) -> None:
        self.faults.append(Fault(node.line, message, node.column))

    def spend(self, node: Node) -> None:
        self._left -= 1
        if self._left < 0:
            raise YamlError(node.line, "document contains excessive aliasing")

    def fields(self, node: Node, type_name: str, known: Sequence[str]) -> Fields:
        """Read a mapping whose keys are known; without one, all of them are absent."""
        found = Fields(self, node)
        if node.tag == "!!map":
            found.values = self._pairs(node)
            for name, (key, _) in list(found.values.items()):
                if name not in known:
                    self.fault_at(key, f"field {name} not found in type {type_name}")
        elif not node.is_null:
            self.fault_at(node, f"cannot unmarshal {node.shown()} into {type_name}")
        return found

    def text(self, node: Node) -> str:
        self.spend(node)
        if node.is_null:
            return ""
        if not node.is_scalar or node.tag == "!!binary":
            self.fault_at(node, f"cannot unmarshal {node.shown()} into string")
            return ""
        if "\0" in node.value:
            self.fault_at(node, "a text with the character NUL cannot be stored")
        return node.value

    def texts(self, node: Node) -> dict[str, str]:
        """Read a mapping of texts to texts."""
        if node.tag == "!!map":
            return {name: self.text(value) for name, (_, value) in self._pairs(node).items()}
        if not node.is_null:
            self.fault_at(node, f"cannot unmarshal {node.shown()} into map[string]string")
        return {}

    def items(self, node: Node, type_name: str) -> list[Node]:
        if node.tag != "!!seq" and not node.is_null:
            self.fault_at(node, f"cannot unmarshal {node.shown()} into []{type_name}")
        for item in node.items:
            self.spend(item)
        return node.items

    def _pairs(self, node: Node, depth: int = 0) -> dict[str, tuple[Node, Node]]:
        """Return nodes of key and value by key, with the merged ones."""
        if depth > MAX_DEPTH:
            raise YamlError(node.line, f"merged more than {MAX_DEPTH} levels deep")
        found: dict[str, tuple[Node, Node]] = {}
        merged: list[Node] = []
        for key, value in node.pairs:
            self.spend(key)
            if key.tag == "!!merge":
                merged.append(value)
                continue
            name = self.text(key)
            if name in found:
                self.fault_at(key, f'mapping key "{name}" already defined at line {found[name][0].line}')
            else:
                found[name] = (key, value)
        for one in merged:
            sources = one.items if one.tag == "!!seq" else [one]
            for source in sources:
                self.spend(source)
                if source.tag != "!!map":
                    self.fault_at(one, "map merge requires map or sequence of maps as the value")
                    continue
                found = {**self._pairs(source, depth + 1), **found}
        return found


class Fields:
    """Values of a mapping by key."""

    def __init__(self, reading: Reading, node: Node) -> None:
        self._reading = reading
        self.line = node.line
        self.column = node.column
        self.values: dict[str, tuple[Node, Node]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.values and not self.values[name][1].is_null

    def line_of(self, name: str) -> int:
        """Return the line of a value, or that of the mapping."""
        return self.values[name][1].line if name in self.values else self.line

    def text(self, name: str) -> str:
        return self._reading.text(self.values[name][1]) if name in self.values else ""

    def texts(self, name: str) -> dict[str, str]:
        return self._reading.texts(self.values[name][1]) if name in self.values else {}

    def items(self, name: str, type_name: str) -> list[Node]:
        return self._reading.items(self.values[name][1], type_name) if name in self.values else []

    def number(self, name: str) -> int:
        if name not in self:
            return 0
        node = self.values[name][1]
        try:
            if node.tag == "!!float" and (cut := _truncated(node.value)) is not None:
                return cut
            if node.tag == "!!int" and abs(number := _integer(node.value)) < MAX_NUMBER:
                return number
        except ValueError:
            pass  # digits that its base does not have
        self._reading.fault_at(node, f"cannot unmarshal {node.shown()} into int")
        return 0

    def flag(self, name: str) -> bool:
        """Read `true` or `false`; False without either."""
        if name not in self:
            return False
        node = self.values[name][1]
        if node.tag != "!!bool":
            self._reading.fault_at(node, f"cannot unmarshal {node.shown()} into bool")
        return node.value.lower() == "true"

    def decimal(self, name: str) -> float:
        """Read a finite number; 0 without one."""
        if name not in self:
            return 0.0
        node = self.values[name][1]
        if node.tag in {"!!int", "!!float"}:
            try:
                number = float(_integer(node.value) if node.tag == "!!int" else node.value.replace("_", ""))
            except (ValueError, OverflowError):
                number = math.nan  # digits that its base does not have, `.inf`
            if math.isfinite(number):
                return number
        self._reading.fault_at(node, f"cannot unmarshal {node.shown()} into float64")
        return 0.0

    def node(self, name: str) -> Node:
        """Return the value, or a null at the place of the mapping."""
        return self.values[name][1] if name in self.values else Node("!!null", self.line, column=self.column)

    def fault(self, name: str, message: str) -> None:
        """Record a fault at a value, or at the mapping."""
        self._reading.fault_at(self.node(name), message)

    def duration_ms(self, name: str) -> int | None:
        """Read a duration such as `1m30s`; None without one."""
        if name not in self:
            return None
        text = self.text(name)
        if not text:
            if self.values[name][1].is_scalar:
                self._reading.fault_at(self.values[name][1], "empty duration string")
            return 0
        try:
            return self._reading.duration(text) // 1_000_000
        except ValueError as error:
            self._reading.fault_at(self.values[name][1], str(error))
            return 0


def _truncated(text: str) -> int | None:
    """Read a number with a fraction as Go's YAML puts it into an integer; None if it is none.

    >>> _truncated("1.5"), _truncated("-2e1"), _truncated(".nan")
    (1, -20, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if abs(number) < MAX_NUMBER else None


def _integer(text: str) -> int:
    """Read an integer of YAML; a leading zero makes it octal.

    >>> _integer("0x1f"), _integer("017"), _integer("-1_000")
    (31, 15, -1000)
    """
    plain = text.replace("_", "")
    sign = -1 if plain.startswith("-") else 1
    digits = plain.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)
