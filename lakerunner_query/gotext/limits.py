"""How far a template may go for one line, and for all lines of a frame.

A template is a program: it can loop, repeat and pad. Text is bounded before it is built and steps are
counted, so that one that would run for ever or fill the memory ends with an error that says which bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakerunner_query.errors import LimitExceededError

LINE_BYTES = 4 << 20
"""Of one rendered text, and of any text on the way to it."""
LINE_MADE = 64 << 20
"""Of all texts on the way to one: what variables may hold."""
FRAME_BYTES = 1 << 29
"""Of all texts that one call renders."""
LINE_STEPS = 200_000
"""Actions, commands and operands evaluated for one line."""
FRAME_STEPS = 5_000_000
STEPS_PER_LINE = 200
"""Lines add this to what a frame may take, so that many lines of a usual template never meet the bound."""
DEPTH = 50
"""Templates that call templates; with what is nested in them they may still be too many for our stack."""
_CHECKED_EVERY = 4096


def allow_text(size: int) -> None:
    """To be asked before a text of that many characters is built."""
    if size > LINE_BYTES:
        raise LimitExceededError(
            f"a template makes a text of {size} bytes, more than the {LINE_BYTES} allowed; "
            "repeat, indent or pad by less"
        )


@dataclass(slots=True)
class Budget:
    """What is left for one call over a frame; `check` raises when the query was cancelled or is too late."""

    lines: int
    check: Callable[[], None] | None = None
    steps: int = 0
    bytes: int = 0
    held: int = 0
    line_steps: int = 0
    line_made: int = 0

    def start_line(self) -> None:
        self.line_steps = self.line_made = 0

    def step(self) -> None:
        self.line_steps += 1
        if self.line_steps > LINE_STEPS:
            raise LimitExceededError(
                f"a template takes more than {LINE_STEPS} steps for one line; let it loop over less"
            )
        self.steps += 1
        if self.steps % _CHECKED_EVERY == 0:
            self._look_around()

    def _look_around(self) -> None:
        if self.steps > FRAME_STEPS + STEPS_PER_LINE * self.lines:
            raise LimitExceededError(
                f"a template took {self.steps} steps for {self.lines} lines; let it loop over less"
            )
        if self.check is not None:
            self.check()

    def make_text(self, size: int) -> None:
        """A function returned a text of that size."""
        allow_text(size)
        self.line_made += size
        if self.line_made > LINE_MADE:
            raise LimitExceededError(
                f"a template makes texts of more than {LINE_MADE} bytes for one line; let it do less"
            )

    def add_text(self, size: int) -> None:
        self.bytes += size
        self._check_texts(self.bytes)

    def hold_text(self, size: int) -> None:
        """Of distinct texts, before they are laid out row by row."""
        self.held += size
        self._check_texts(self.held)

    def hold_step(self, size: int) -> None:
        """Of all distinct texts at one step, which take the place of those before."""
        self._check_texts(self.held + size)

    def _check_texts(self, size: int) -> None:
        if size > FRAME_BYTES:
            raise LimitExceededError(
                f"a template makes more than {FRAME_BYTES} bytes of {self.lines} lines; make them shorter"
            )
