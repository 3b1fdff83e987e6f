"""Bounds on the work of templates, and on labels that functions make.

A template is a program: it can loop, repeat and pad. Steps are counted and text is bounded before it is
built, so that a template that would run for ever or fill the memory ends with an error that names the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_query.errors import LimitExceededError

LINE_BYTES = 4 << 20
"""Size of one rendered text, and of any text on the way to it."""
LINE_TEXTS_BYTES = 64 << 20
"""Size of all texts on the way to one, which variables may hold."""
LINE_READ_BYTES = 64 << 20
"""Size of all texts that functions read for one line: each may be scanned from end to end."""
FRAME_BYTES = 1 << 29
"""Size of all texts that one call renders."""
LINE_STEPS = 200_000
"""Actions, commands and operands evaluated for one line."""
FRAME_STEPS = 5_000_000
"""Steps for all lines together."""
STEPS_PER_LINE = 200
"""Addition to the steps of a frame, so that many lines of a usual template never meet the bound."""
DEPTH = 50
"""Calls of templates by templates, each of which takes several frames of Python's stack."""
_STEPS_PER_CHECK = 4096
_BYTES_PER_CHECK = 4 << 20


def allow_text(size: int) -> None:
    """Raise if a text of that many characters may not be built."""
    if size > LINE_BYTES:
        raise LimitExceededError(
            f"a template makes a text of {size} bytes, more than the {LINE_BYTES} allowed; "
            "repeat, indent or pad by less"
        )


@dataclass(slots=True)
class Budget:
    """Steps and bytes that one call over a frame has used."""

    lines: int
    check: Callable[[], None] | None = None
    """Raises when the query was cancelled or is too late."""
    steps: int = 0
    bytes: int = 0
    held: int = 0
    line_steps: int = 0
    line_bytes: int = 0
    line_read: int = 0
    read: int = 0
    """Size of texts read since the last check."""

    def start_line(self) -> None:
        self.line_steps = self.line_bytes = self.line_read = 0

    def step(self) -> None:
        self.line_steps += 1
        if self.line_steps > LINE_STEPS:
            raise LimitExceededError(
                f"a template takes more than {LINE_STEPS} steps for one line; let it loop over less"
            )
        self.steps += 1
        if self.steps % _STEPS_PER_CHECK == 0:
            self._check_frame()

    def _check_frame(self) -> None:
        if self.steps > FRAME_STEPS + STEPS_PER_LINE * self.lines:
            raise LimitExceededError(
                f"a template took {self.steps} steps for {self.lines} lines; let it loop over less"
            )
        if self.check is not None:
            self.check()

    def make_text(self, size: int) -> None:
        """Count a text that a function returned."""
        allow_text(size)
        self.line_bytes += size
        if self.line_bytes > LINE_TEXTS_BYTES:
            raise LimitExceededError(
                f"a template makes texts of more than {LINE_TEXTS_BYTES} bytes for one line; let it do less"
            )

    def read_texts(self, size: int) -> None:
        """Count the texts that a function is about to read."""
        self.line_read += size
        if self.line_read > LINE_READ_BYTES:
            raise LimitExceededError(
                f"functions of a template read texts of more than {LINE_READ_BYTES} bytes for one line; "
                "call fewer of them, or on shorter texts"
            )
        self.read += size
        if self.read > _BYTES_PER_CHECK:
            self.read = 0
            if self.check is not None:
                self.check()

    def add_text(self, size: int) -> None:
        self.bytes += size
        self._check_texts(self.bytes)

    def hold_text(self, size: int) -> None:
        """Count distinct texts, before they are laid out row by row."""
        self.held += size
        self._check_texts(self.held)

    def hold_step(self, size: int) -> None:
        """Check the distinct texts of one step, which replace those of the step before."""
        self._check_texts(self.held + size)

    def _check_texts(self, size: int) -> None:
        if size > FRAME_BYTES:
            raise LimitExceededError(
                f"a template makes more than {FRAME_BYTES} bytes of {self.lines} lines; make them shorter"
            )


LABELS_BYTES = 64 << 20
"""Size of all labels that one call of `label_replace` or `label_join` makes."""
_PIECE_BYTES = 16
"""Size that a piece of a label counts with at least: putting it there takes time, even if it is empty."""


@dataclass(slots=True)
class LabelBudget:
    """Bytes that one call has put into labels; nested calls would double a label again and again."""

    function: str
    bytes: int = 0

    def add(self, size: int, times: int = 1) -> None:
        """Count pieces of this size, which are about to be put into labels."""
        self.bytes += max(size, _PIECE_BYTES) * times
        if self.bytes > LABELS_BYTES:
            raise LimitExceededError(
                f"{self.function} makes labels of more than {LABELS_BYTES} bytes; "
                "make them shorter, or of fewer series"
            )
