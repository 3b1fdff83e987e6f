"""Prints several values, as Go's `fmt.Sprint` and `fmt.Sprintf` do.

>>> sprint([1, 2.5, "a", None]), sprintf("%05.1f|%-4s|%q|%x", [3.14159, "ab", "c", 255])
('1 2.5a<nil>', '003.1|ab  |"c"|ff')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakerunner_query.gotext.fmt import Flags, format_value, join_texts, structure
from lakerunner_query.gotext.limits import allow_text
from lakerunner_query.gotext.values import type_name, unbox

_PLAIN = Flags()
_MOST = 1_000_000
"""Widths and precisions above are errors in Go, too."""
_MARKS = re.compile(r"[#0+\- ]*")
_DIGITS = re.compile(r"[0-9]+")


def sprint(values: Sequence[Any]) -> str:
    """Print values with a space between two neighbours that are both no strings."""
    parts: list[str] = []
    was_text = True
    size = 0
    for value in map(unbox, values):
        is_text = isinstance(value, str)
        if parts and not is_text and not was_text:
            parts.append(" ")
        parts.append(format_value(value, "v", _PLAIN))
        size += len(parts[-1])
        allow_text(size)
        was_text = is_text
    return "".join(parts)


def sprintln(values: Sequence[Any]) -> str:
    return join_texts((format_value(unbox(value), "v", _PLAIN) for value in values), " ") + "\n"


def print_value(value: Any) -> str:
    """Return the text that an action writes for its value."""
    value = unbox(value)
    if isinstance(value, str):
        return value
    if (fields := getattr(value, "go_fields", None)) is not None:
        return structure(fields, "v", _PLAIN)  # an action follows pointers
    return "<no value>" if value is None else format_value(value, "v", _PLAIN)


def sprintf(layout: str, values: Sequence[Any]) -> str:
    return _Formatting(layout, [unbox(value) for value in values]).run()


@dataclass(slots=True)
class _Formatting:
    """One pass over a format: its position, and the number of the next argument."""

    layout: str
    values: list[Any]
    at: int = 0
    argument: int = 0
    is_reordered: bool = False
    has_good_index: bool = True
    is_after_index: bool = False
    """A `[2]` was read, and nothing that belongs to it yet."""

    def run(self) -> str:
        parts: list[str] = []
        length = 0
        while self.at < len(self.layout):
            end = self.layout.find("%", self.at)
            end = len(self.layout) if end < 0 else end
            parts.append(self.layout[self.at : end])
            self.at = end
            if end < len(self.layout):
                self.at += 1
                self.has_good_index = True
                parts.append(self._directive())
                length += len(parts[-1])
                allow_text(length)
        if not self.is_reordered and self.argument < len(self.values):
            parts.append(self._extra())
        return "".join(parts)

    def _extra(self) -> str:
        shown = [
            "<nil>" if value is None else f"{type_name(value)}={format_value(value, 'v', _PLAIN)}"
            for value in self.values[self.argument :]
        ]
        return f"%!(EXTRA {', '.join(shown)})"

    def _directive(self) -> str:
        found = _MARKS.match(self.layout, self.at)
        marks = found[0] if found else ""
        self.at += len(marks)
        width, bad_width = self._width()
        precision, bad_precision = self._precision()
        if not self.is_after_index:
            self._index()
        flags = Flags(
            plus="+" in marks,
            minus="-" in marks or (width or 0) < 0,
            sharp="#" in marks,
            space=" " in marks,
            zero="0" in marks,
            width=None if width is None else abs(width),
            precision=precision,
        )
        if self.at >= len(self.layout):
            return bad_width + bad_precision + "%!(NOVERB)"
        verb = self.layout[self.at]
        self.at += 1
        return bad_width + bad_precision + self._verb(verb, flags)

    def _width(self) -> tuple[int | None, str]:
        """Return the width; negative if an argument asks for padding on the right."""
        self.is_after_index = self._index()
        if self.layout[self.at : self.at + 1] == "*":
            self.at += 1
            self.is_after_index = False
            value = self._star()
            return value, "%!(BADWIDTH)" if value is None else ""
        width = self._integer()
        if self.is_after_index and width is not None:
            self.has_good_index = False
        return width, ""

    def _precision(self) -> tuple[int | None, str]:
        if self.layout[self.at : self.at + 1] != "." or self.at + 1 == len(self.layout):
            return None, ""
        self.at += 1
        if self.is_after_index:
            self.has_good_index = False
        self.is_after_index = self._index()
        if self.layout[self.at : self.at + 1] != "*":
            return self._integer() or 0, ""
        self.at += 1
        self.is_after_index = False
        value = self._star()
        return (None, "%!(BADPREC)") if value is None or value < 0 else (value, "")

    def _index(self) -> bool:
        """Read an explicit index such as `[2]`: the number of the next argument."""
        if self.layout[self.at : self.at + 1] != "[":
            return False
        self.is_reordered = True
        closing = self.layout.find("]", self.at)
        if closing < 0:
            self.has_good_index = False
            self.at += 1
            return False
        text = self.layout[self.at + 1 : closing]
        self.at = closing + 1
        is_number = text.isascii() and text.isdigit()
        number = int(text.lstrip("0")[:9] or 0) if is_number else 0
        if 1 <= number <= len(self.values):
            self.argument = number - 1
            return True
        self.has_good_index = False
        return is_number

    def _integer(self) -> int | None:
        found = _DIGITS.match(self.layout, self.at)
        if found is None:
            return None
        number = int(found[0].lstrip("0")[:9] or 0)
        if number > _MOST:
            self.at = len(self.layout)
            return None
        self.at = found.end()
        return number

    def _star(self) -> int | None:
        if self.argument >= len(self.values):
            return None
        value = self.values[self.argument]
        self.argument += 1
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MOST:
            return None
        return int(value)

    def _verb(self, verb: str, flags: Flags) -> str:
        if verb == "%":
            return "%"
        if not self.has_good_index:
            return f"%!{verb}(BADINDEX)"
        if self.argument >= len(self.values):
            return f"%!{verb}(MISSING)"
        value = self.values[self.argument]
        self.argument += 1
        if verb == "v":
            flags = replace(flags, source=flags.sharp, sharp=False, plus=False)
        return format_value(value, verb, flags)
